"""The arguments that say which model and which work, as in bench/contestants/training.cpp."""


def add_shape(parser):
    for name in ("vocabulary", "context", "width", "layers", "heads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--family", choices=("gpt2", "llama"), default="gpt2")


def add_training(parser):
    add_shape(parser)
    parser.add_argument("--batch", type=int, required=True, help="sequences a rank")
    parser.add_argument("--weights", required=True, help="a safetensors file")
    parser.add_argument("--dtype", choices=("fp32", "bf16", "fp16"), default="fp32", help="of the full parameters")
    parser.add_argument("--lr", type=float, default=3e-4, help="of AdamW")


def make_model(arguments):
    if arguments.family == "llama":
        from compare.peer.llama import make_llama as make
    else:
        from compare.peer.gpt import Gpt as make
    return make(arguments.vocabulary, arguments.context, arguments.width, arguments.layers, arguments.heads)
