"""What the tests change in the commands of the pages, and what they leave out, with the reasons.

A command is named by its page and by a part of its text. An entry that fits no command is an error.
"""

# Pages whose commands are run one after the other, each in a folder of its own.
RUN = [
    "README.md",
    "docs/after_the_loop.md",
    "docs/arithmetic.md",
    "docs/determinism.md",
    "docs/faq.md",
    "docs/formats.md",
    "docs/install.md",
    "docs/metrics.md",
    "docs/planning.md",
    "docs/reference/README.md",
    "docs/scaling.md",
    "docs/security.md",
    "docs/simulator.md",
    "docs/strategies.md",
    "docs/tips.md",
    "docs/tracing.md",
    "docs/trainer.md",
    "docs/trainer_data.md",
    "docs/trainer_going_on.md",
    "docs/trainer_options.md",
    "examples/README.md",
    "recipes/gpt2.toml",
    "recipes/llama.toml",
    "recipes/llama_1b.toml",
    "recipes/llama_7b.toml",
    "recipes/llama_small.toml",
]

# Programs of others that commands need, by a word of the command: the program and its package in Debian.
NEEDS = {
    "bible": ("bible", "bible-kjv, bible-kjv-text"),
    "cmake --build": ("ninja", "ninja-build"),
    "docs/reference/make": ("doxygen", "doxygen"),
    "jq": ("jq", "jq"),
}

# Written in the page: run instead. For what takes too long, and for names that stand for something.
INSTEAD = {
    "README.md": {"--text FOLDER --ranks 2": "--text recipes --ranks 2 --steps 2 --batch 1 --sample-length 8"},
    "docs/cluster.md": {
        "--steps 500": "--steps 2 --sample-length 8",
        "llama-1b": "llama-tiny --batch 1",
        "--text texts": "--text recipes",
    },
    "docs/determinism.md": {"--steps 50": "--steps 3"},
    "docs/formats.md": {"run/step-300": "run/step-2"},
    "docs/planning.md": {
        "calibrate --output": "calibrate --quick --output",
        "--text book.txt --model gpt2-mini --ranks 2": (
            "--text recipes --model gpt2-tiny --ranks 2 --steps 1 --sample-length 8"
        ),
    },
    "docs/simulator.md": {"calibrate --output": "calibrate --quick --output"},
    "docs/trainer.md": {
        "gen1:1-rev22:21": "gen1:1-gen50:26",
        "--ranks 2\n": "--ranks 2 --steps 4 --sample-length 8\n",
        "--ranks 2 --steps 500 --batch 8": "--ranks 2 --steps 4 --batch 8",
        "--validate-every 100 --save-every 200": "--validate-every 2 --save-every 2",
        "--sample-length 120": "--sample-length 8",
        "--sample-length 60": "--sample-length 8",
    },
    "docs/trainer_data.md": {
        "--text letters/ --ranks 2": "--text recipes/ --ranks 2 --steps 2 --sample-length 8",
        "--text letters/ --tokenizer train:1024": "--text src/ --tokenizer train:512",
        "--data tokens --ranks 2": "--data tokens --ranks 2 --steps 2 --sample-length 8",
        "bible.txt:3,code/:1 --steps 500": "README.txt:3,recipes/:1 --steps 2 --sample-length 8",
    },
    "docs/trainer_options.md": {
        "--text book.txt --model gpt2-mini --ranks 8": (
            "--text recipes --model gpt2-tiny --ranks 8 --steps 1 --batch 1 --sample-length 8"
        ),
        "--text book.txt --model gpt2-mini --ranks 2": (
            "--text recipes --model gpt2-tiny --ranks 2 --steps 1 --sample-length 8"
        ),
    },
    "docs/trainer_going_on.md": {
        "--resume runs/first --steps 1_000": "--resume runs/first --steps 4",
        "--steps 500 --elastic 1:2 --save-minutes 10": "--steps 2 --sample-length 8 --elastic 1:2",
        "--text letters.txt --lr 1e-4": "--text recipes --lr 1e-4 --steps 1 --run runs/more --sample-length 8",
        "--text letters.txt --lora 8": "--text recipes --lora 8 --steps 1 --run runs/adapted --sample-length 8",
        "FOLDER": "runs/other/model",
        "--lr 2e-5 --export": "--lr 2e-5 --export --steps 1 --run runs/tuned --sample-length 8",
    },
    "docs/install.md": {
        # Its own program; install.fetch_content shows that the library is compiled as in this build.
        "cmake --build counting/build\n": "cmake --build counting/build --target CMakeFiles/counting.dir/main.cpp.o\n",
    },
    "recipes/gpt2.toml": {"openwebtext/": "src/", "FILE.model": "train:512", "--ranks 8": "--ranks 8 --dry-run"},
    # The memory of 32 machines; documents.cluster starts ranks by torchrun.
    "recipes/llama.toml": {
        "torchrun --no-python --nnodes 4 --nproc-per-node 8 ... -- fsdp-train": "fsdp-train --dry-run --ranks 8",
        "--data tokens/": "--text src",
    },
    # The memory of a machine.
    "recipes/llama_1b.toml": {"TEXT": "src --dry-run"},
    "recipes/llama_7b.toml": {"TEXT --offload-directory FOLDER": "src --dry-run --offload-directory ."},
    "recipes/llama_small.toml": {"TEXT": "src --dry-run"},
}

# Commands that no test can run, with the reason.
ELSEWHERE = {
    ("docs/install.md", "scripts/package"): "packs for minutes; install.package runs its parts",
    ("docs/install.md", "tar -xf"): "wants an archive of scripts/package; install.package runs one",
    ("docs/install.md", "vcpkg install"): "vcpkg is no Debian package, and fetches its ports",
    ("docs/install.md", "conan create"): "fetches Conan and its packages, and compiles the library once more",
    ("docs/communication.md", "FSDP_UPDATE_DOCS"): "writes the page; without the variable it is a test",
    ("docs/cuda.md", "cmake --preset release"): "wants LibTorch with CUDA",
    ("CONTRIBUTING.md", "cmake --preset asan"): "compiles all tests twice more, and runs them",
    ("CONTRIBUTING.md", "scripts/matrix"): "fetches gigabytes; bench.gpu_check runs its parts",
    ("CONTRIBUTING.md", "scripts/gpu-check"): "fetches gigabytes, and wants a GPU; bench.gpu_check runs its parts",
    ("bench/README.md", "scripts/setup"): "measures for hours; bench.same_losses runs its parts",
}

# Commands that install packages and compile for minutes: a line of .ci/run runs the same.
IN_CI = {
    ("README.md", "scripts/quickstart"): "scripts/quickstart",
    ("docs/install.md", "scripts/setup"): "scripts/quickstart",
    ("docs/trainer.md", "scripts/setup"): "scripts/quickstart",
    ("examples/README.md", "scripts/setup"): "scripts/test",
    ("CONTRIBUTING.md", "scripts/setup"): "scripts/test",
}

# Commands that end with another exit code than 0.
EXIT_CODES = {
    ("docs/trainer_options.md", "--warmpu"): 2,
}

# Run before a command: makes what its page takes for granted.
BEFORE = {
    ("docs/formats.md", "run/step-300"): (
        "fsdp-train --text recipes --ranks 1 --steps 2 --batch 1 --sample-length 8 --run run && "
        "fsdp-convert run/step-2 dcp/step-300 --to dcp"
    ),
    ("docs/trainer_data.md", "bible.txt:3"): "cp docs/README.md README.txt",
    ("docs/trainer_going_on.md", "--resume runs/first"): (
        "fsdp-train prepare --text src --tokenizer train:512 --output tokens && "
        "fsdp-train --data tokens --model llama-tiny --ranks 2 --steps 2 --batch 1 --validate-every 1 "
        "--sample-length 8 --export --run runs/first && cp -r runs/first runs/other"
    ),
    ("docs/trainer_options.md", "--warmpu"): (
        "printf '[data]\\ntext = \"src\"\\n[output]\\nsample_every = 3\\n' > run.toml"
    ),
    ("docs/metrics.md", "fsdp-train report"): (
        "for run in run run/a run/b run/c; do "
        "fsdp-train --text recipes --ranks 1 --steps 2 --batch 1 --sample-length 8 --run $run; done"
    ),
    ("recipes/gpt2.toml", "--config"): "test -d tokens",
}

# What a command leaves, as paths in the folder.
LEAVES = {
    ("docs/formats.md", "model.pt"): ["model.pt", "model/model.safetensors", "step-300/manifest.json"],
    ("docs/trainer_data.md", "--output tokens"): ["tokens/files.json", "tokens/tokenizer.model"],
    ("docs/trainer.md", "--output tokens"): ["tokens/files.json", "tokens/tokenizer.model"],
    ("docs/trainer.md", "--run runs/first"): [
        "runs/first/config.toml",
        "runs/first/config.json",
        "runs/first/metrics.jsonl",
        "runs/first/tensorboard",
        "runs/first/step-4/manifest.json",
        "runs/first/sample.txt",
    ],
    ("docs/metrics.md", "fsdp-train report"): ["run/report.html", "abc.html"],
    ("docs/reference/README.md", "docs/reference/make"): ["build/reference/index.html"],
    ("docs/tracing.md", "jq"): ["trace.json"],
    ("docs/trainer.md", "~/.bashrc"): [".bashrc"],
    ("docs/tracing.md", "examples/trace"): ["trace.rank0.json", "trace.rank1.json"],
    ("examples/README.md", "examples/minimal"): ["minimal-run/step-40/manifest.json"],
    ("docs/after_the_loop.md", "cmp"): ["whole/step-200/manifest.json"],
    ("examples/README.md", "examples/train"): ["train-run/model.pt"],
    ("examples/README.md", "examples/trace"): ["trace.rank0.json"],
    ("docs/install.md", "installed/build/counting"): ["minimal-run/step-40/manifest.json"],
    ("examples/README.md", "examples/sharded"): ["ddp/manifest.json", "fsdp/manifest.json"],
    ("recipes/gpt2.toml", "prepare"): ["tokens/files.json"],
}


def is_left_out(block):
    return bool(of(ELSEWHERE, block) or of(IN_CI, block))


def of(table, block):
    """The entries of the table for a block, as (part, value)."""
    return [(part, value) for (page, part), value in table.items() if page == block.page and part in block.commands()]
