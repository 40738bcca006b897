// Builds the graph of a piece of a model (plan/graph.h) from the operators that both families have. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/model_config.h"
#include "models/operators.h"
#include "plan/graph.h"

namespace models {

// An element of fp32, and of int64.
inline constexpr int64_t kFloatBytes = 4, kIntegerBytes = 8;

// Sizes on one rank.
struct RankSizes {
  RankSizes(const ModelConfig& config, const MicroBatchSizes& of);

  int64_t batch, length;
  int64_t rows;        // tokens of the micro-batch
  int64_t slice_rows;  // of these, on this rank between divided layers: fewer with sequence_parallel
  int64_t width, mlp_width, heads, key_value_heads, head_width, vocabulary;
  int64_t element;  // bytes of an activation's element
  int64_t parts;    // of divided layers, on this rank
};

// One owner builds one piece, operator after operator. A member that returns a number returns that of the operator's
// result.
class GraphBuilder {
 public:
  using Number = size_t;

  GraphBuilder(const ModelConfig& config, const MicroBatchSizes& sizes);

  const ModelConfig& config() const { return config_; }
  const MicroBatchSizes& micro_batch() const { return micro_batch_; }
  const RankSizes& sizes() const { return sizes_; }

  // The first tensor of the piece: the output of the piece before it, or tokens.
  Number input(const std::string& name, int64_t bytes, int64_t gradient_bytes);
  // A tensor that has a gradient as large as itself; `activation` in the dtype of activations.
  Number result(const std::string& name, int64_t bytes);
  Number activation(const std::string& name, int64_t numel) { return result(name, numel * sizes_.element); }
  // A tensor without a gradient.
  Number data(const std::string& name, int64_t bytes);
  // Views of equal parts of x. Their gradients are put together and copied into the order of x.
  std::vector<Number> views(const std::string& name, Number x, int64_t count);
  int64_t bytes_of(Number tensor) const { return graph_.tensors[tensor].bytes; }
  fsdp::plan::GraphTensor& tensor(Number number) { return graph_.tensors[number]; }
  void add(fsdp::plan::Operator operation) { graph_.operators.push_back(std::move(operation)); }
  fsdp::plan::Operator& latest() { return graph_.operators.back(); }  // that was added last

  // x [rows, in] times a weight [out, in], and a bias. With the adapter that the config has for the layer.
  struct Linear {
    int64_t in = 0, out = 0;
    bool bias = false;
  };
  Number linear(const std::string& name, Number x, const Linear& layer);
  // A pass over memory that keeps `keeps`. Its result is as large as the first tensor that it reads.
  Number elementwise(const std::string& name, std::vector<Number> reads, std::vector<Number> keeps);
  // x + y, where y is a branch of a residual stream.
  Number sum(const std::string& name, Number x, Number y);
  // x itself if `share` is 0.
  Number dropout(const std::string& name, Number x, double share);
  // Rows of an embedding [entries, width] for `tokens`.
  Number lookup(const std::string& name, Number tokens, int64_t rows, int64_t entries);
  // Exchanges between ranks of the tensor axis, if there are several: before and behind a pair of divided layers.
  Number before_columns(const std::string& name, Number x);
  Number behind_rows(const std::string& name, Number x);

  fsdp::plan::Graph finish(Number output);

 private:
  Number add_tensor(fsdp::plan::GraphTensor tensor);
  Number product(const std::string& name, Number x, const Linear& layer);
  Number with_adapter(const std::string& name, Number x, Number output, const Linear& layer);

  const ModelConfig& config_;
  MicroBatchSizes micro_batch_;
  RankSizes sizes_;
  fsdp::plan::Graph graph_;
};

// A kernel of a product whose operands and result are in elements of so many bytes.
fsdp::plan::Kernel product_kernel(int64_t m, int64_t n, int64_t k, int64_t batch, int64_t element_bytes);
// A pass over memory.
fsdp::plan::Kernel pass_kernel(double flops, int64_t bytes_read, int64_t bytes_written);

}  // namespace models
