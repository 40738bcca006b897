#include "models/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace models {

namespace {

class Problems {
 public:
  void require(bool holds, std::string problem) {
    if (!holds) found_.push_back(std::move(problem));
  }
  void within(const char* name, int64_t value, int64_t highest) {
    require(value >= 1, fmt::format("{} is {}; it must be at least 1.", name, value));
    require(value <= highest, fmt::format("{} is {}; it must be at most {}.", name, value, highest));
  }
  void positive(const char* name, double value) {
    require(std::isfinite(value) && value > 0, fmt::format("{} is {}; it must be a number above 0.", name, value));
  }
  void share(const char* name, double value) {
    require(value >= 0 && value < 1, fmt::format("{} is {}; it must be at least 0 and below 1.", name, value));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

// Bounds far beyond use, which keep every product of sizes within 64 bits.
void check_sizes(const ModelConfig& config, Problems& problems) {
  constexpr int64_t kMany = 1'000'000'000, kWide = 1'000'000, kDeep = 10'000, kHead = 1000;
  problems.within("vocabulary", config.vocabulary, kMany);
  problems.within("context", config.context, kMany);
  problems.within("width", config.width, kWide);
  problems.within("layers", config.layers, kDeep);
  problems.within("heads", config.heads, kDeep);
  if (config.key_value_heads) problems.within("key_value_heads", *config.key_value_heads, kDeep);
  if (config.head_width) problems.within("head_width", *config.head_width, kHead);
  if (config.mlp_width) problems.within("mlp_width", *config.mlp_width, 4 * kWide);
}

void check_tokens(const ModelConfig& config, Problems& problems) {
  const auto check = [&](const char* name, int64_t token) {
    problems.require(token >= 0, fmt::format("{} is {}; it must be at least 0.", name, token));
  };
  if (config.begin_token) check("begin_token", *config.begin_token);
  for (int64_t token : config.end_tokens) check("end_tokens", token);
}

void check_heads(const ModelConfig& config, Problems& problems) {
  if (config.heads < 1 || config.width < 1) return;
  const int64_t shared = config.key_value_heads_or_default();
  problems.require(config.head_width || config.width % config.heads == 0,
                   fmt::format("width {} is not a multiple of heads {}.", config.width, config.heads));
  problems.require(
      shared < 1 || config.heads % shared == 0,
      fmt::format("key_value_heads {} does not divide heads {}, which are to share them.", shared, config.heads));
}

void check_lora(const ModelConfig& config, Problems& problems) {
  const Lora& lora = *config.lora;
  constexpr int64_t kWidest = 1'000'000;
  problems.within("lora.rank", lora.rank, kWidest);
  problems.positive("lora.alpha", lora.alpha);
  problems.share("lora.dropout", lora.dropout);
  problems.require(!lora.targets.empty(), "lora.targets is empty; it must name a layer.");
}

// GPT-2 and BERT.
void check_equal_heads(const ModelConfig& config, Problems& problems) {
  const int64_t shared = config.key_value_heads_or_default();
  const char* family = name_of(config.family);
  problems.require(shared == config.heads, fmt::format("key_value_heads is {} and heads {}; they are equal in {}.",
                                                       shared, config.heads, family));
  problems.require(!config.head_width || (config.heads > 0 && *config.head_width == config.width / config.heads),
                   fmt::format("head_width is {}; in {} it is width / heads.", config.head_width.value_or(0), family));
  problems.require(!config.rope_scaling, fmt::format("rope_scaling is set; {} has no rotary embedding.", family));
}

void check_bert(const ModelConfig& config, Problems& problems) {
  check_equal_heads(config, problems);
  problems.require(config.tied_embeddings, "tied_embeddings is false; in BERT the head is the token embedding.");
}

void check_llama(const ModelConfig& config, Problems& problems) {
  const int64_t head_width = config.head_width_or_default();
  problems.require(head_width % 2 == 0,
                   fmt::format("head_width is {}; it must be even, as the rotary embedding turns pairs.", head_width));
  problems.positive("rope_theta", config.rope_theta);
  problems.require(config.embedding_dropout == 0,
                   fmt::format("embedding_dropout is {}; Llama has none.", config.embedding_dropout));
  problems.require(config.residual_dropout == 0,
                   fmt::format("residual_dropout is {}; Llama has none.", config.residual_dropout));
  if (!config.rope_scaling) return;
  const RopeScaling& scaling = *config.rope_scaling;
  problems.positive("rope_scaling.factor", scaling.factor);
  problems.positive("rope_scaling.low_frequency_factor", scaling.low_frequency_factor);
  problems.positive("rope_scaling.high_frequency_factor", scaling.high_frequency_factor);
  problems.require(!(scaling.high_frequency_factor <= scaling.low_frequency_factor),
                   fmt::format("rope_scaling.high_frequency_factor is {}; it must be above low_frequency_factor, {}.",
                               scaling.high_frequency_factor, scaling.low_frequency_factor));
  problems.require(
      scaling.original_context >= 1,
      fmt::format("rope_scaling.original_context is {}; it must be at least 1.", scaling.original_context));
}

}  // namespace

int64_t ModelConfig::mlp_width_or_default() const {
  if (mlp_width) return *mlp_width;
  if (family != Family::Llama) return 4 * width;
  constexpr int64_t kMultiple = 32;
  return ((8 * width + 2) / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

bool Lora::is_for(const std::string& layer) const {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return layer == target || layer.ends_with("." + target); });
}

const char* name_of(Family family) {
  switch (family) {
    case Family::Gpt2:
      return "GPT-2";
    case Family::Bert:
      return "BERT";
    default:
      return "Llama";
  }
}

bool is_for_plans_alone(Family family) { return family == Family::Bert; }

std::vector<std::string> problems(const ModelConfig& config) {
  Problems problems;
  check_sizes(config, problems);
  check_heads(config, problems);
  check_tokens(config, problems);
  problems.positive("norm_epsilon", config.norm_epsilon);
  problems.positive("initializer_range", config.initializer_range);
  problems.share("embedding_dropout", config.embedding_dropout);
  problems.share("attention_dropout", config.attention_dropout);
  problems.share("residual_dropout", config.residual_dropout);
  if (config.lora) check_lora(config, problems);
  if (config.family == Family::Gpt2) check_equal_heads(config, problems);
  if (config.family == Family::Bert) check_bert(config, problems);
  if (config.family == Family::Llama) check_llama(config, problems);
  return problems.take();
}

}  // namespace models
