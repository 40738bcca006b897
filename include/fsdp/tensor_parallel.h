// Layers that are divided among the ranks of an axis, as in Megatron-LM (Shoeybi et al., arXiv:1909.08053).
//
//   fsdp::Mesh mesh(world, {{"data", 4}, {"tensor", 2}});
//   fsdp::ColumnParallelLinear up(torch::nn::LinearOptions(512, 2048), mesh["tensor"]);   // 1024 of 2048 rows here
//   fsdp::RowParallelLinear down(torch::nn::LinearOptions(2048, 512), mesh["tensor"]);    // 1024 of 2048 columns here
//   y = down(torch::gelu(up(x)));                                                         // x and y: the same on both
//
// Each layer consists of T parts (TensorParallelOptions::parts), and a rank holds neighbouring parts. Each part is
// computed by products of its own, and sums over parts are in the order of the parts, in fp32 (fp64 for fp64). So the
// bits depend on T, and not on the number of ranks: a process alone, with an axis of size 1 and T parts, has the bits
// of T ranks. docs/parallelism.md has the exceptions.
//
// All ranks of an axis run the same forwards and backwards, on the same data, and compute the same loss from them.
// Forwards and backwards are collectives of the axis. Gradients are those of one process: complete, and equal on all
// ranks where a parameter is. Inputs are dense, in the dtype of the weight. The layers have no second derivative.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/world.h"

namespace fsdp {

// Output features that are divided on their own.
struct FeatureBlock {
  int64_t heads = 0;      // a multiple of the parts; or, for heads of several features, a divisor of their number
  int64_t head_size = 1;  // features of each head, which are never divided
};

// How a layer is divided.
struct TensorParallelOptions {
  int parts = 0;  // T, a multiple of axis.size(). 0: axis.size()
  // Activations outside of a pair of column and row layers are [batch, sequence, features], and each rank holds its
  // slice of the sequence (Korthikanti et al., arXiv:2205.05198). ColumnParallelLinear gathers its input along the
  // sequence. RowParallelLinear and ParallelEmbedding return this rank's slice. axis.size() divides the sequence.
  bool sequence_parallel = false;
  // ColumnParallelLinear alone: the output has all features, on every rank.
  bool gather_output = false;
  // ColumnParallelLinear alone: the output features are these blocks, one after the other. A part has some heads of
  // each block. {}: one block. For a fused QKV of 8 heads and 2 key heads of 64 features: {{8, 64}, {2, 64}, {2, 64}};
  // for a fused gate and up: {{2048}, {2048}}. If a block has fewer heads than there are parts, several parts in turn
  // use the same head. A rank holds each of its heads once.
  std::vector<FeatureBlock> blocks = {};
};

// The part of a parameter that a rank holds.
struct ParameterDivision {
  std::string parameter;       // its name in the module
  std::vector<int64_t> shape;  // of the whole parameter
  int64_t dim = 0;             // the divided dimension
  // Along `dim`, begin and end in the whole parameter. The rank's tensor has them one after the other. Ranks have the
  // same range where they share a head.
  std::vector<std::pair<int64_t, int64_t>> ranges;
};

// A module whose parameters are divided among ranks.
class DividedModule {
 public:
  virtual ~DividedModule() = default;
  // All parameters of which this rank may hold a part alone.
  virtual std::vector<ParameterDivision> divisions() const = 0;
  // The ranks among which they are divided.
  virtual const World& axis() const = 0;
};

// torch::nn::Linear with its output features divided among ranks: rows of the weight, and entries of the bias.
//
// Whole shapes, names and first values are torch::nn::Linear's: the constructor draws the numbers of the whole layer
// and keeps its own, also within deferred_init.
class ColumnParallelLinearImpl : public torch::nn::Cloneable<ColumnParallelLinearImpl>, public DividedModule {
 public:
  // `options` are those of the whole layer. Throws `Error`, with numbers that would do, if the parts do not divide the
  // features, the axis does not divide the parts, or the blocks are not the features.
  ColumnParallelLinearImpl(const torch::nn::LinearOptions& options, World axis, TensorParallelOptions parallel = {});

  // [..., in_features] to [..., features of this rank], or [..., out_features] with gather_output. With blocks, the
  // output has this rank's features of each block, one block after the other. The input is the same on all ranks, and
  // its gradient is complete. With sequence_parallel it is this rank's slice, and so is its gradient.
  torch::Tensor forward(const torch::Tensor& input);

  // Output features of each block on this rank, for `split_with_sizes`. A head that several parts share counts once
  // for each part of this rank.
  std::vector<int64_t> block_features() const;
  // Rows of the weight, and entries of the bias.
  std::vector<ParameterDivision> divisions() const override;
  // The constructor's.
  const World& axis() const override { return axis_; }
  // For clone(): makes the parameters of a module that has none, and draws the whole layer's numbers.
  void reset() override;
  // For torch::nn::Module's output.
  void pretty_print(std::ostream& stream) const override;

  torch::nn::LinearOptions options;  // of the whole layer
  torch::Tensor weight;              // [rows of this rank, in_features]
  torch::Tensor bias;                // [rows of this rank]; undefined without a bias

 private:
  World axis_;
  TensorParallelOptions parallel_;
};

// A holder, as torch::nn::Linear is of LinearImpl.
class ColumnParallelLinear : public torch::nn::ModuleHolder<ColumnParallelLinearImpl> {
 public:
  using torch::nn::ModuleHolder<ColumnParallelLinearImpl>::ModuleHolder;
  // As ColumnParallelLinearImpl's.
  ColumnParallelLinear(const torch::nn::LinearOptions& options, World axis, TensorParallelOptions parallel = {})
      : ModuleHolder(std::make_shared<ColumnParallelLinearImpl>(options, std::move(axis), std::move(parallel))) {}
};

// torch::nn::Linear with its input features divided among ranks: columns of the weight. Each rank has the whole bias,
// which is added once. Names, whole shapes and first values as in ColumnParallelLinear.
class RowParallelLinearImpl : public torch::nn::Cloneable<RowParallelLinearImpl>, public DividedModule {
 public:
  // As ColumnParallelLinearImpl's. Throws `Error` for gather_output and blocks, too.
  RowParallelLinearImpl(const torch::nn::LinearOptions& options, World axis, TensorParallelOptions parallel = {});

  // [..., in_features / axis.size()], the output of a ColumnParallelLinear with as many parts, to [..., out_features],
  // the same on all ranks. With sequence_parallel it is this rank's slice of that.
  torch::Tensor forward(const torch::Tensor& input);

  // Columns of the weight.
  std::vector<ParameterDivision> divisions() const override;
  // The constructor's.
  const World& axis() const override { return axis_; }
  // For clone(): makes the parameters of a module that has none, and draws the whole layer's numbers.
  void reset() override;
  // For torch::nn::Module's output.
  void pretty_print(std::ostream& stream) const override;

  torch::nn::LinearOptions options;  // of the whole layer
  torch::Tensor weight;              // [out_features, columns of this rank]
  torch::Tensor bias;                // [out_features]; undefined without a bias

 private:
  World axis_;
  TensorParallelOptions parallel_;
};

// A holder, as torch::nn::Linear is of LinearImpl.
class RowParallelLinear : public torch::nn::ModuleHolder<RowParallelLinearImpl> {
 public:
  using torch::nn::ModuleHolder<RowParallelLinearImpl>::ModuleHolder;
  // As RowParallelLinearImpl's.
  RowParallelLinear(const torch::nn::LinearOptions& options, World axis, TensorParallelOptions parallel = {})
      : ModuleHolder(std::make_shared<RowParallelLinearImpl>(options, std::move(axis), std::move(parallel))) {}
};

// torch::nn::Embedding with its entries divided among ranks. T need not divide their number: the first parts have one
// entry more. Name, whole shape and first values are torch::nn::Embedding's. linear_cross_entropy takes the weight as
// it is for a tied head (LinearCrossEntropyOptions::divided_over).
class ParallelEmbeddingImpl : public torch::nn::Cloneable<ParallelEmbeddingImpl>, public DividedModule {
 public:
  // `options` are those of the whole embedding. Throws `Error` for fewer entries than parts, for max_norm,
  // scale_grad_by_freq, sparse, gather_output and blocks, and if the axis does not divide the parts.
  ParallelEmbeddingImpl(torch::nn::EmbeddingOptions options, World axis, TensorParallelOptions parallel = {});

  // Indices [...], the same on all ranks, to [..., embedding_dim], the same on all ranks. With sequence_parallel:
  // [batch, sequence] to this rank's slice. Throws `Error` for an index outside of the whole embedding; on a GPU the
  // process ends, as with torch::nn::Embedding.
  torch::Tensor forward(const torch::Tensor& indices);

  // Rows of the weight.
  std::vector<ParameterDivision> divisions() const override;
  // The constructor's.
  const World& axis() const override { return axis_; }
  // For clone(): makes the parameters of a module that has none, and draws the whole embedding's numbers.
  void reset() override;
  // For torch::nn::Module's output.
  void pretty_print(std::ostream& stream) const override;

  torch::nn::EmbeddingOptions options;  // of the whole embedding
  torch::Tensor weight;                 // [entries of this rank, embedding_dim]

 private:
  World axis_;
  TensorParallelOptions parallel_;
};

// A holder, as torch::nn::Embedding is of EmbeddingImpl.
class ParallelEmbedding : public torch::nn::ModuleHolder<ParallelEmbeddingImpl> {
 public:
  using torch::nn::ModuleHolder<ParallelEmbeddingImpl>::ModuleHolder;
  // As ParallelEmbeddingImpl's.
  ParallelEmbedding(torch::nn::EmbeddingOptions options, World axis, TensorParallelOptions parallel = {})
      : ModuleHolder(
            std::make_shared<ParallelEmbeddingImpl>(std::move(options), std::move(axis), std::move(parallel))) {}
};

// Clips a model of divided layers that is not sharded: ShardedModel::clip_grad_norm_ for torch::optim. Counts each
// element of the whole model once, whatever part of it this rank holds. Parameters that all ranks of an axis hold have
// equal gradients there. A collective of the layers' axes. Throws `Error` for a sharded module, for a max_norm below 0
// or NaN, and for a norm_type that is not positive.
double clip_grad_norm_(const torch::nn::Module& module, double max_norm, double norm_type = 2.0);

// This rank's slice along dimension 1 of [batch, sequence, ...], for example of learned positions. `whole` is the same
// on all ranks, and its gradient is complete. axis.size() divides the sequence. To put slices together again, and
// compute the same from them on all ranks: differentiable::all_gather(slice, axis, 1, ResultUse::Alike).
torch::Tensor sequence_slice(const torch::Tensor& whole, const World& axis);

// A layer on a slice of the sequence, with parameters that all ranks hold whole, such as a norm between
// sequence-parallel layers:
//
//   y = fsdp::on_sequence_slices(x, {norm->weight, norm->bias}, axis, options, [&](const auto& x, const auto& of) {
//     return torch::layer_norm(x, {512}, of[0], of[1]);
//   });
//
// `layer` is called for each of this rank's parts of the sequence, with as many parameters as are given. Undefined
// ones, such as the bias of a norm without one, stay undefined. The results are put together along dimension 1. Each
// rank sees its slice alone, so it has a part of the parameters' gradient. The backward adds up all parts in order: the
// gradients are complete, and equal on all ranks. Their bits depend on `parallel.parts`, which divide the sequence, and
// not on the number of ranks. Without sequence_parallel it is layer(input, parameters).
torch::Tensor on_sequence_slices(
    const torch::Tensor& input, const std::vector<torch::Tensor>& parameters, const World& axis,
    const TensorParallelOptions& parallel,
    const std::function<torch::Tensor(const torch::Tensor& part, const std::vector<torch::Tensor>& parameters)>& layer);

}  // namespace fsdp
