// The operators of models: their floating-point operations, and activations beside published formulas.
#include "models/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/block_costs.h"
#include "models/model_sizes.h"
#include "plan/activations.h"

namespace models {
namespace {

using fsdp::KeptResults;
using fsdp::plan::Graph;
using fsdp::plan::Kernel;
using fsdp::plan::ModelGraphs;
using fsdp::plan::Operator;

double products_of(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.is_again ? 0 : kernel.product_flops();
  return sum;
}

BlockOperations products_of(const Graph& graph) {
  BlockOperations sum;
  for (const Operator& operation : graph.operators) {
    sum.forward += products_of(operation.forward);
    sum.input_gradient += products_of(operation.input_gradient);
    sum.weight_gradient += products_of(operation.weight_gradient);
  }
  return sum;
}

// block_operations counts a multiplication and an addition for each entry of norms and biases, as if they multiplied.
double operations_of_vectors(const ModelBlock& block) {
  double sum = 0;
  for (const Parameter& parameter : block.parameters)
    sum += parameter.kind == ParameterKind::Matrix ? 0 : 2 * static_cast<double>(parameter.numel());
  return sum;
}

void expect_products(const Graph& graph, const ModelBlock& block, const BlockOperations& of_token, double tokens) {
  const BlockOperations products = products_of(graph);
  const double vectors = operations_of_vectors(block);
  EXPECT_EQ(products.forward, tokens * (of_token.forward - vectors)) << block.name;
  EXPECT_EQ(products.input_gradient, tokens * (of_token.input_gradient - vectors)) << block.name;
  EXPECT_EQ(products.weight_gradient, tokens * (of_token.weight_gradient - vectors)) << block.name;
}

TEST(ModelOperators, HaveTheProductsOfTheBlocks) {
  for (const char* name : {"gpt2-xl", "llama-1b", "llama-7b", "bert-large"}) {
    for (const bool on_gpus : {false, true}) {
      for (const AttentionKind attention : {AttentionKind::Fused, AttentionKind::Unfused}) {
        const ModelConfig config = *config_of_size(name);
        const int64_t length = 96, batch = 4;
        const ModelGraphs graphs = model_graphs(
            config, {.batch = batch, .length = length, .element_bytes = 2, .on_gpus = on_gpus, .attention = attention});
        const std::vector<ModelBlock> all = blocks(config);
        const std::vector<BlockOperations> operations = block_operations(config, length);
        for (size_t i = 0; i < all.size(); ++i) {
          if (all[i].is_layer) expect_products(graphs.layer, all[i], operations[i], batch * length);
        }
        expect_products(graphs.head, all.back(), operations.back(), batch * length);
      }
    }
  }
}

// Without statistics of norms, as the paper counts.
int64_t layer_bytes_without_statistics(const ModelConfig& config, const MicroBatchSizes& sizes, KeptResults keep) {
  const Graph layer = model_graphs(config, sizes).layer;
  int64_t bytes = 0;
  for (const size_t number : kept_tensors(layer, keep)) {
    const auto& tensor = layer.tensors[number];
    if (!tensor.name.ends_with(".mean") && !tensor.name.ends_with(".rstd")) bytes += tensor.bytes;
  }
  return bytes;
}

// Korthikanti et al., 2022, "Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198, table 2,
// in 16 bits with dropout: s b h (34 + 5 a s / h), and its divisions among t ranks.
TEST(ModelOperators, KeepTheActivationsOfMegatron) {
  constexpr int64_t s = 2048, b = 4, h = 6144, a = 64, t = 8;
  ModelConfig config{.vocabulary = 51'200, .context = s, .width = h, .layers = 2, .heads = a};
  config.attention_dropout = config.residual_dropout = 0.1;
  MicroBatchSizes sizes{.batch = b, .element_bytes = 2, .on_gpus = true, .attention = AttentionKind::Unfused};
  constexpr int64_t of_scores = 5 * a * s * s * b, of_tokens = s * b * h;
  EXPECT_EQ(layer_bytes_without_statistics(config, sizes, KeptResults::All), 34 * of_tokens + of_scores);
  EXPECT_EQ(layer_bytes_without_statistics(config, sizes, KeptResults::None), 2 * of_tokens);
  sizes.tensor_ranks = t;
  EXPECT_EQ(layer_bytes_without_statistics(config, sizes, KeptResults::All),
            10 * of_tokens + 24 * of_tokens / t + of_scores / t);
  sizes.sequence_parallel = true;
  EXPECT_EQ(layer_bytes_without_statistics(config, sizes, KeptResults::All), (34 * of_tokens + of_scores) / t);
}

// Norms behind the sums keep as much.
TEST(ModelOperators, OfBertKeepTheActivationsOfMegatron) {
  ModelConfig config = *config_of_size("bert-large");
  config.attention_dropout = config.residual_dropout = 0.1;
  const MicroBatchSizes sizes{
      .batch = 8, .length = 512, .element_bytes = 2, .on_gpus = true, .attention = AttentionKind::Unfused};
  constexpr int64_t s = 512, b = 8, h = 1024, a = 16;
  EXPECT_EQ(layer_bytes_without_statistics(config, sizes, KeptResults::All), 34 * s * b * h + 5 * a * s * s * b);
}

// Dao et al., 2022, arXiv:2205.14135: a number per row of scores takes the place of all scores.
TEST(ModelOperators, KeepNoScoresOfFusedAttention) {
  const ModelConfig config = *config_of_size("llama-8b");
  const MicroBatchSizes sizes{.batch = 1, .length = 8192, .element_bytes = 2, .on_gpus = true};
  for (const auto& tensor : model_graphs(config, sizes).layer.tensors)
    EXPECT_LE(tensor.bytes, 2 * 8192 * config.mlp_width_or_default()) << tensor.name;
}

TEST(ModelOperators, RunInTheOrderOfTheirTensors) {
  for (const char* name : {"gpt2", "llama-8b", "bert-large"}) {
    for (const int64_t ranks : {1, 4}) {
      const ModelGraphs graphs = model_graphs(
          *config_of_size(name), {.batch = 2, .length = 64, .tensor_ranks = ranks, .sequence_parallel = ranks > 1});
      for (const Graph* graph : {&graphs.embedding, &graphs.layer, &graphs.norm, &graphs.head}) {
        std::vector<bool> is_written(graph->tensors.size(), false);
        for (const Operator& operation : graph->operators) {
          for (const size_t read : operation.reads)
            EXPECT_TRUE(is_written[read] || read == graph->input || !graph->tensors[read].has_gradient())
                << operation.name << " reads " << graph->tensors[read].name;
          for (const size_t written : operation.writes) {
            EXPECT_FALSE(is_written[written]) << operation.name;
            is_written[written] = true;
          }
        }
        EXPECT_TRUE(is_written[graph->output]);
      }
    }
  }
}

}  // namespace
}  // namespace models
