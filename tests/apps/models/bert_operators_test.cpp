// The tensors that a BERT keeps, beside those that torch.autograd.graph.saved_tensors_hooks counts in transformers 5.24
// for modules of BertForMaskedLM with sdpa: 3 sequences of 7 tokens, in fp32 on a CPU, without dropout.
#include "models/bert_operators.h"

#include <gtest/gtest.h>

#include "models/model_sizes.h"
#include "plan/activations.h"

namespace models {
namespace {

using fsdp::KeptResults;

const ModelConfig kBert{
    .family = Family::Bert, .vocabulary = 61, .context = 7, .width = 24, .layers = 2, .heads = 4, .mlp_width = 40};
constexpr MicroBatchSizes kThreeSequences{.batch = 3};

int64_t kept_bytes(const fsdp::plan::Graph& graph) { return bytes_of(graph, kept_tensors(graph, KeptResults::All)); }

TEST(BertOperators, KeepAsManyBytesAsHuggingFacesModules) {
  const fsdp::plan::ModelGraphs graphs = model_graphs(kBert, kThreeSequences);
  EXPECT_EQ(kept_bytes(graphs.embedding), 2464);
  EXPECT_EQ(kept_bytes(graphs.layer), 23'520);
  EXPECT_EQ(kept_bytes(graphs.norm), 6216);
}

// Tensors of the width: the layer's input, queries, keys and values, the results of attention, the input of a norm and
// its result, two four times as wide around GELU, and the input of the second norm. Attention has a number per row of
// its scores, each norm two per token.
TEST(BertOperators, KeepSixteenTensorsOfTheWidthPerLayer) {
  const ModelConfig large = *config_of_size("bert-large");
  const int64_t tokens = 8 * large.context;
  EXPECT_EQ(kept_bytes(model_graphs(large, {.batch = 8, .element_bytes = 2, .on_gpus = true}).layer),
            tokens * (2 * 16 * large.width + 4 * large.heads + 2 * 2 * 4));
}

TEST(BertOperators, OfRecomputedLayersKeepTheirInputs) {
  const fsdp::plan::ModelGraphs graphs = model_graphs(kBert, kThreeSequences);
  EXPECT_EQ(bytes_of(graphs.layer, kept_tensors(graphs.layer, KeptResults::None)), 4 * 21 * kBert.width);
}

}  // namespace
}  // namespace models
