"""A training step as nanoGPT's train.py takes it on CPUs, told over standard input; alone, or as one rank under DDP.

As there: batches at random places of a memory-mapped file of 16-bit tokens (here multiples of the context, so that
losses can be compared), the next one read between forward and backward, gradients clipped to a norm of 1, AdamW that is
fused on GPUs alone, weight decay for matrices alone, no compilation (its README's advice for CPUs). The learning rate
is constant, and the loss is read in every step. The model is peer/gpt.py. https://github.com/karpathy/nanoGPT
"""

import argparse
import os

import numpy
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from compare.peer.arguments import add_training, make_model
from compare.peer.conversation import answer, seconds_of, take_over_output

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
LARGEST_NORM = 1.0


def make_optimizer(model, lr):
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=BETAS)


class Training:
    def __init__(self, arguments, ranks):
        self.arguments = arguments
        self.model = make_model(arguments)
        self.model.load_state_dict(load_file(arguments.weights))
        self.optimizer = make_optimizer(self.model, arguments.lr)
        if ranks > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)
        self.batch = self.next_batch()
        self.losses = []

    def next_batch(self):
        """Tokens and targets [batch, context]; the file is mapped anew each time, as there."""
        data = numpy.memmap(self.arguments.tokens, dtype=numpy.uint16, mode="r")
        context = self.arguments.context
        places = (context * torch.randint(len(data) // context - 1, (self.arguments.batch,))).tolist()

        def windows_from(offset):
            pieces = [data[place + offset : place + offset + context] for place in places]
            return torch.stack([torch.from_numpy(piece.astype(numpy.int64)) for piece in pieces])

        return windows_from(0), windows_from(1)

    def step(self):
        loss = self.model(*self.batch)
        self.batch = self.next_batch()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), LARGEST_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss.item())

    def steps(self, count):
        self.losses = []
        return {"seconds": [seconds_of(self.step) for _ in range(count)], "losses": self.losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training(parser)
    parser.add_argument("--tokens", required=True, help="a file of 16-bit tokens")
    arguments = parser.parse_args()
    output = take_over_output()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    ranks = int(os.environ["WORLD_SIZE"])
    torch.manual_seed(1 + int(os.environ["RANK"]))
    if ranks > 1:
        dist.init_process_group("gloo")
    training = Training(arguments, ranks)
    answer(output, {"steps": lambda command: training.steps(command["count"])})


if __name__ == "__main__":
    main()
