// GPT-2 1.5 B, as courses count its memory, and as llm.c prints it.
#include <fmt/format.h>

#include "models/model_sizes.h"
#include "planning/model_parts.h"
#include "planning/textbook_topics.h"

namespace trainer {

namespace {

// The course's model and batch.
constexpr double kTaughtNumel = 1.5e9;
constexpr double kBatch = 32, kContext = 1024, kWidth = 1600, kLayers = 48, kFloat = 4;

// The activations of a run by part, in bytes.
struct ActivationParts {
  double embedding = 0;  // the sum of both embeddings
  double layers = 0;
  double rest = 0;  // of the last norm, the head and the loss
  double sum() const { return embedding + layers + rest; }
};

// A layer's bytes are those by which a model with one more layer holds more.
ActivationParts activation_parts(const HeldRun& run) {
  HeldRun fewer = run;
  fewer.model.layers = run.model.layers - 1;
  const double all = held_bytes(run), layer = all - held_bytes(fewer);
  ActivationParts parts{
      .embedding = static_cast<double>(run.element_bytes * run.batch * run.model.context * run.model.width),
      .layers = static_cast<double>(run.model.layers) * layer};
  parts.rest = all - parts.embedding - parts.layers;
  return parts;
}

TextbookRow part(const char* id, const char* what, const char* formula, double published, double recomputed) {
  return {.id = id,
          .what = what,
          .source = "courses",
          .formula = formula,
          .unit = "GB",
          .published = published,
          .recomputed = recomputed};
}

std::vector<TextbookRow> state_rows(const fsdp::plan::StateMemory& state) {
  TextbookRow parameters = part("gpt2-parameters", "Parameters", "4 P", 6, kFloat * kTaughtNumel / kGigabyte);
  parameters.ours = static_cast<double>(state.parameters) / kGigabyte;
  parameters.why = "GPT-2 1.5 B has 1,557,611,200 parameters.";
  TextbookRow gradients = part("gpt2-gradients", "Gradients", "4 P", 6, kFloat * kTaughtNumel / kGigabyte);
  gradients.ours = static_cast<double>(state.gradients) / kGigabyte;
  gradients.why = "As above.";
  TextbookRow adam = part("gpt2-adam", "Adam", "3 x 4 P", 18, 3 * kFloat * kTaughtNumel / kGigabyte);
  adam.ours = static_cast<double>(state.optimizer) / kGigabyte;
  adam.why =
      "Adam has two moments. The third tensor is mixed precision's fp32 copy of the parameters, and in fp32 the "
      "parameters are that copy.";
  return {parameters, gradients, adam};
}

std::vector<TextbookRow> activation_rows(const ActivationParts& ours) {
  const double embedding = kFloat * kBatch * kContext * kWidth, layer = 6 * embedding;
  TextbookRow tokens =
      part("gpt2-token-embeddings", "Token embeddings", "4 B T C, in GiB", 0.19, embedding / kGibibyte);
  TextbookRow positions = part("gpt2-position-embeddings", "Position embeddings", "4 T C, in GiB", 0.006,
                               kFloat * kContext * kWidth / kGibibyte);
  TextbookRow layers =
      part("gpt2-layers", "48 layers of 1.17", "48 x 6 x 4 B T C, in GiB", 56.25, kLayers * layer / kGibibyte);
  tokens.ours = ours.embedding / kGigabyte;
  layers.ours = ours.layers / kGigabyte;
  tokens.why = "The same bytes, in GB of 10^9 bytes. They are those of the sum of both embeddings.";
  positions.ours = 0;
  positions.why = "Not held: the sum of both embeddings takes their place.";
  layers.why = fmt::format(
      "A layer keeps {:.4g} such tensors, not six: inputs of its norms and matrices, queries, keys and values, and the "
      "MLP's four times wider ones before and after GELU.",
      ours.layers / kLayers / embedding);
  return {tokens, positions, layers};
}

// llm.c's model: its vocabulary is padded for the kernels.
constexpr double kLlmcVocabulary = 50'304, kRanks = 8, kHalf = 2;
double llmc_numel() {
  return static_cast<double>(models::parameter_numel(*models::config_of_size("gpt2-xl"))) +
         (kLlmcVocabulary - 50'257) * kWidth;
}

// The tensors of fill_in_activation_sizes in its train_gpt2.cu, for 16 sequences, cuDNN's attention and no
// recomputation: https://github.com/karpathy/llm.c.
double llmc_activations() {
  constexpr double kTokens = 16 * kContext, kHeads = 25;
  const double wide = kTokens * kWidth;  // B T C
  const double of_layers =
      kLayers * (16 * wide) * kHalf  // norms, attention and both sums 5, queries, keys and values 3, MLP 4 + 4
      + kLayers * (kTokens * kHeads + 4 * kTokens) * kFloat;  // statistics of attention and norms
  const double outside = (3 * wide + 4 * wide + kTokens * kLlmcVocabulary) * kHalf + 3 * kTokens * kFloat;
  return of_layers + outside;
}

TextbookRow llmc_row(const char* id, const char* what, const char* formula, double published, double bytes, double ours,
                     std::string why) {
  return {.id = id,
          .what = what,
          .source = "llm.c",
          .formula = formula,
          .unit = "MiB",
          .published = published,
          .recomputed = bytes / kMebibyte,
          .ours = ours / kMebibyte,
          .why = std::move(why)};
}

}  // namespace

TextbookTopic gpt2_part_by_part() {
  const models::ModelConfig gpt2 = *models::config_of_size("gpt2-xl");
  const fsdp::plan::StateMemory state = state_on_gpus(parts_of(gpt2).units, "full-shard", 1, "fp32");
  const ActivationParts activations = activation_parts({.model = gpt2, .batch = static_cast<int64_t>(kBatch)});
  TextbookTopic topic{
      .title = "GPT-2 1.5 B, part by part",
      .setting =
          "fp32 on one device: batch B = 32, context T = 1,024, width C = 1,600, 48 layers. Courses add up GB of state "
          "and GiB of activations.",
      .rows = state_rows(state)};
  for (TextbookRow& row : activation_rows(activations)) topic.rows.push_back(std::move(row));
  TextbookRow together = part("gpt2-together", "Together", "the sum, about", 87, 0);
  for (const TextbookRow& row : topic.rows) together.recomputed += row.recomputed;
  together.ours = (static_cast<double>(state.total()) + activations.sum()) / kGigabyte;
  together.why = fmt::format(
      "One Adam tensor less, and every tensor of the layers. The head and the loss hold {:.3g} GB, which the course "
      "leaves out.",
      activations.rest / kGigabyte);
  topic.rows.push_back(std::move(together));
  return topic;
}

TextbookTopic llmc_memory() {
  const models::ModelConfig gpt2 = *models::config_of_size("gpt2-xl");
  const auto ranks = static_cast<int64_t>(kRanks);
  const fsdp::plan::StateMemory state = state_on_gpus(parts_of(gpt2).units, "shard-optimizer", ranks, "bf16");
  const double numel = llmc_numel(), moment = static_cast<double>(state.optimizer) / 2;
  const auto gradients = static_cast<double>(state.gradients + state.full_gradients);
  return {
      .title = "GPT-2 1.5 B in llm.c",
      .setting =
          "bf16 on 8 H100, ZeRO-1, 16 sequences of 1,024 tokens; MiB per rank. Ours: ShardOptimizer. llm.c's "
          "vocabulary "
          "is padded to 50,304, 0.005 % more parameters.",
      .rows = {
          llmc_row("llmc-parameters", "Parameters in bf16", "2 P", 2971, kHalf * numel,
                   static_cast<double>(state.full_parameters), "Equal, up to padding."),
          llmc_row(
              "llmc-gradients", "Gradients", "2 P", 2971, kHalf * numel, gradients,
              fmt::format("The sums of a shard in fp32, and three buffers of the largest unit in --reduce-dtype, by "
                          "default fp32: {:.0f} and {:.0f} MiB. Each unit is reduced at once.",
                          static_cast<double>(state.gradients) / kMebibyte,
                          static_cast<double>(state.full_gradients) / kMebibyte)),
          llmc_row("llmc-activations", "Activations", "tensors of train_gpt2.cu", 40'409, llmc_activations(),
                   held_bytes({.model = gpt2, .batch = 16, .element_bytes = 2}),
                   "Both keep 16 tensors of batch x context x width per layer. llm.c holds all logits, and buffers for "
                   "the backward."),
          llmc_row("llmc-first-moment", "First moment", "4 P / 8", 742, kFloat * numel / kRanks, moment, "Equal."),
          llmc_row("llmc-second-moment", "Second moment", "4 P / 8", 742, kFloat * numel / kRanks, moment, "Equal."),
          llmc_row("llmc-master", "Parameters in fp32", "4 P / 8", 742, kFloat * numel / kRanks,
                   static_cast<double>(state.parameters),
                   "The shard is there in bf16 too, which peers gather: half as much again.")}};
}

}  // namespace trainer
