// Reversible blocks: their inputs follow from their outputs, so a sequence of any length keeps its last result alone
// for the backward (Gomez, Ren, Urtasun and Grosse, 2017, "The reversible residual network", arXiv:1707.04585).
//
//   forward     y1 = x1 + f(x2)    y2 = x2 + g(y1)
//   backward    x2 = y2 - g(y1)    x1 = y1 - f(x2)
//
// Inputs that are computed back differ from the forward's by rounding, and so do gradients from those of plain
// autograd. They have bits of their own, which are the same on any number of ranks. The price is a forward more, as
// that of recomputation (activation_checkpoint.h), which keeps an input for each block and changes no bit.
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <tuple>
#include <vector>

namespace fsdp {

// Children `f` and `g`, which take a tensor each and return one of its shape and dtype.
class ReversibleBlockImpl : public torch::nn::Module {
 public:
  ReversibleBlockImpl(torch::nn::AnyModule f, torch::nn::AnyModule g);

  // (y1, y2), as any module: autograd keeps what it keeps.
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x1, const torch::Tensor& x2);
  torch::Tensor f(const torch::Tensor& x2) { return f_.forward(x2); }
  torch::Tensor g(const torch::Tensor& y1) { return g_.forward(y1); }

 private:
  torch::nn::AnyModule f_, g_;
};
TORCH_MODULE(ReversibleBlock);

// Blocks one after the other, children of `blocks`: units_of<ReversibleBlockImpl>() makes each a unit.
//
//   std::vector<fsdp::ReversibleBlock> blocks;
//   for (int i = 0; i < 8; ++i) blocks.emplace_back(torch::nn::AnyModule(Mlp(64)), torch::nn::AnyModule(Mlp(64)));
//   fsdp::ReversibleSequence sequence(blocks);
//   auto [y1, y2] = sequence(x1, x2);
//
// The backward runs each f and g once more, with the random numbers, autocast and modes of the forward. What these
// write, such as a BatchNorm's statistics, they write twice. A graph may be retained and run backward again.
class ReversibleSequenceImpl : public torch::nn::Module {
 public:
  explicit ReversibleSequenceImpl(const std::vector<ReversibleBlock>& blocks);

  // With gradient mode on, (y1, y2) is what is kept. They may not be changed in place: autograd finds that. A backward
  // with create_graph throws Error, as there is no second derivative.
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x1, const torch::Tensor& x2);

 private:
  torch::nn::ModuleList blocks_;
};
TORCH_MODULE(ReversibleSequence);

}  // namespace fsdp
