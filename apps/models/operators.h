// The operators of a model as data. They are the operators of gpt2.cpp, llama.cpp and head.cpp, with the tensors that
// LibTorch's autograd keeps of them; bert_operators.h has a BERT's. Pure arithmetic, so that a plan needs neither
// LibTorch nor a run.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "models/model_config.h"
#include "plan/graph.h"

namespace models {

// As LinearCrossEntropyOptions: bytes of logits at a time.
inline constexpr int64_t kLogitBytes = int64_t{64} << 20, kGpuLogitBytes = int64_t{1} << 30;

enum class AttentionKind {
  Fused,    // scaled_dot_product_attention. On CPUs it is unfused if it has dropout.
  Unfused,  // scores and probabilities are tensors (Korthikanti et al., 2022, arXiv:2205.05198)
};

// One micro-batch on one rank.
struct MicroBatchSizes {
  int64_t batch = 1;          // sequences
  int64_t length = 0;         // tokens of a sequence; 0: the model's context
  int64_t element_bytes = 4;  // of activations: fp32 4, bf16 and fp16 2
  bool is_fp16 = false;       // on CPUs the loss keeps fewer logits of it
  bool on_gpus = false;
  AttentionKind attention = AttentionKind::Fused;
  bool evaluates = false;  // a forward alone: without dropout, and the loss keeps no logits
  // Tensor parallelism: heads, MLPs and the vocabulary are divided among so many ranks. With sequence_parallel the
  // tokens between these layers are, too. Both divide what they apply to.
  int64_t tensor_ranks = 1;
  bool sequence_parallel = false;
  int64_t tensor_parts = 0;  // that each rank computes its share of; 0: one for each rank
};

// Graphs of the whole model in training, with adapters (ModelConfig::lora). All parameters are trained. Throws
// fsdp::Error for sizes whose activations may not fit in 64 bits.
fsdp::plan::ModelGraphs model_graphs(const ModelConfig& config, const MicroBatchSizes& sizes);

// As above, where the parameters with these names are not trained.
fsdp::plan::ModelGraphs model_graphs(const ModelConfig& config, const MicroBatchSizes& sizes,
                                     const std::set<std::string>& frozen);

// The graph of a layer.
fsdp::plan::Graph layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes);

}  // namespace models
