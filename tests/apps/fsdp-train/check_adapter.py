"""Compares a base model with an adapter, as peft puts them together, with the model that has the adapter merged.

    check_adapter.py BASE ADAPTER MERGED

Exits with 77 where a package is missing.
"""

import sys

SKIPPED = 77
try:
    import peft
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)

TOLERANCE = 1e-5  # of sums in fp32 in another order, relative and absolute; logits are of order 1


def read(folder):
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


@torch.no_grad()
def main(base, adapter, merged):
    tokens = torch.arange(12).view(1, 12) * 7 % 200
    plain = read(base)(input_ids=tokens).logits
    expected = read(merged)(input_ids=tokens).logits
    with_adapter = peft.PeftModel.from_pretrained(read(base), adapter).eval()
    found = with_adapter(input_ids=tokens).logits
    problems = []
    if torch.allclose(plain, expected, rtol=0.01, atol=0.01):
        problems.append("the merged model gives what the base gives")
    if not torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE):
        problems.append(f"logits differ by {(found - expected).abs().max():.1e}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    sys.exit(main(*sys.argv[1:]))
