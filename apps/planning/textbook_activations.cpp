// Llama 2 70B with and without recomputation.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "console/units.h"
#include "models/model_sizes.h"
#include "planning/textbook_topics.h"

namespace trainer {

namespace {

constexpr int64_t kTokens = 8192, kHalfBytes = 2;

// Features of the results of a layer's matrices, for each token.
int64_t layer_features(const models::ModelConfig& config) {
  const models::Unit layer = models::units(config)[1];
  int64_t features = 0;
  for (const models::Parameter& parameter : layer.parameters) {
    if (parameter.kind == models::ParameterKind::Matrix) features += parameter.shape[0];
  }
  return features;
}

TextbookRow row(const char* id, const char* what, const char* formula, double published, int64_t bytes, double ours,
                std::string why) {
  return {.id = id,
          .what = what,
          .source = "YaFSDP",
          .formula = formula,
          .unit = "GB",
          .published = published,
          .recomputed = static_cast<double>(bytes) / kGigabyte,
          .ours = ours / kGigabyte,
          .why = std::move(why)};
}

}  // namespace

TextbookTopic recomputed_activations() {
  const models::ModelConfig llama = *models::config_of_size("llama2-70b");
  HeldRun run{.model = llama, .batch = kTokens / llama.context, .element_bytes = kHalfBytes};
  HeldRun fewer = run;
  --fewer.model.layers;
  const double all = held_bytes(run), layer = all - held_bytes(fewer);
  run.recomputes = true;
  return {
      .title = "Llama 2 70B: activations",
      .setting = "8,192 tokens per GPU in bf16, two sequences of 4,096. The source gives no formula; these fit.",
      .rows = {
          row("llama-activations", "Without recomputation, \"over 110 GB\"", "results of 7 matrices x 80 x 2 x 8192",
              110, llama.layers * layer_features(llama) * kHalfBytes * kTokens, all,
              fmt::format("A layer keeps {} features of each token, not 83,968: the inputs of norms, of SiLU and of "
                          "each product as well.",
                          grouped(std::llround(layer / (kHalfBytes * kTokens))))),
          row("llama-recomputed", "With recomputation of all layers", "80 inputs x 2 x 4096 tokens", 5,
              llama.layers * llama.width * kHalfBytes * llama.context, held_bytes(run),
              "The inputs of 80 layers take 10.7 GB for 8,192 tokens: the published figure is that of one "
              "sequence. Beside them is the layer that is computed again, with all of its tensors.")}};
}

}  // namespace trainer
