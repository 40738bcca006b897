"""The arguments that say which model and which work, as in bench/contestants/training.cpp."""


def add_shape(parser):
    for name in ("vocabulary", "context", "width", "layers", "heads"):
        parser.add_argument(f"--{name}", type=int, required=True)


def add_training(parser):
    add_shape(parser)
    parser.add_argument("--batch", type=int, required=True, help="sequences a rank")
    parser.add_argument("--weights", required=True, help="a safetensors file")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="of the full parameters")
    parser.add_argument("--lr", type=float, default=3e-4, help="of AdamW")


def make_model(arguments):
    from compare.peer.gpt import Gpt

    return Gpt(arguments.vocabulary, arguments.context, arguments.width, arguments.layers, arguments.heads)
