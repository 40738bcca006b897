// Reversible blocks: their inputs are computed from their outputs, so a sequence of any length keeps only its last
// result for the backward (Gomez, Ren, Urtasun and Grosse, 2017, "The reversible residual network", arXiv:1707.04585).
//
//   forward     y1 = x1 + f(x2)    y2 = x2 + g(y1)
//   backward    x2 = y2 - g(y1)    x1 = y1 - f(x2)
//
// The recomputed inputs differ from the forward's by rounding, so gradients differ from plain autograd's. Their bits
// are the same on any number of ranks. The price is one more forward, as with recomputation (activation_checkpoint.h),
// which keeps one input per block and does not change bits.
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <tuple>
#include <vector>

namespace fsdp {

// Children `f` and `g`: each takes a tensor and returns one of the same shape and dtype.
class ReversibleBlockImpl : public torch::nn::Module {
 public:
  // Both become children of the block.
  ReversibleBlockImpl(torch::nn::AnyModule f, torch::nn::AnyModule g);

  // Returns (y1, y2), as an ordinary module: autograd keeps its usual tensors.
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x1, const torch::Tensor& x2);
  // The child `f` of x2.
  torch::Tensor f(const torch::Tensor& x2) { return f_.forward(x2); }
  // The child `g` of y1.
  torch::Tensor g(const torch::Tensor& y1) { return g_.forward(y1); }

 private:
  torch::nn::AnyModule f_, g_;
};
TORCH_MODULE(ReversibleBlock);

// A sequence of blocks, children of `blocks`. units_of<ReversibleBlockImpl>() makes each a unit.
//
//   std::vector<fsdp::ReversibleBlock> blocks;
//   for (int i = 0; i < 8; ++i) blocks.emplace_back(torch::nn::AnyModule(Mlp(64)), torch::nn::AnyModule(Mlp(64)));
//   fsdp::ReversibleSequence sequence(blocks);
//   auto [y1, y2] = sequence(x1, x2);
//
// The backward runs each f and g once more, with the random numbers, autocast and modes of the forward. So they also
// write twice, for example a BatchNorm's statistics. A graph may be retained and run backward again.
class ReversibleSequenceImpl : public torch::nn::Module {
 public:
  // The blocks become children, in this order.
  explicit ReversibleSequenceImpl(const std::vector<ReversibleBlock>& blocks);

  // With gradient mode on, only (y1, y2) is kept. Do not change them in place: autograd detects it. There is no second
  // derivative: a backward with create_graph throws Error.
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x1, const torch::Tensor& x2);

 private:
  torch::nn::ModuleList blocks_;
};
TORCH_MODULE(ReversibleSequence);

}  // namespace fsdp
