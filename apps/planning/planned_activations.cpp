#include "planning/planned_activations.h"

#include <algorithm>
#include <cstddef>

namespace trainer {

namespace {

// Neither 2 nor 3: bytes of an element, and queries, keys and values in one matrix, are factors of their own.
constexpr ActivationSizes kPrimes = {13, 17, 5, 7, 11, 19, 23, 29, 31};

enum Size : size_t { kBatch, kContext, kShared, kKeyValueHeads, kHeadWidth, kWidth, kMlpWidth, kVocabulary, kRank };

// Llama turns halves of heads, whose width is even.
int64_t head_parts(const models::ModelConfig& model) { return model.family == models::Family::Llama ? 2 : 1; }

ActivationSizes tiny_sizes(const Options& options) {
  ActivationSizes sizes = activation_sizes(options);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) sizes[i] = kPrimes[i];
  }
  return sizes;
}

}  // namespace

ActivationSizes activation_sizes(const Options& options) {
  const models::ModelConfig& model = options.model;
  const int64_t heads = model.key_value_heads_or_default();
  ActivationSizes sizes;
  sizes[kBatch] = options.batch;
  sizes[kContext] = model.context;
  sizes[kShared] = model.heads / heads;
  sizes[kKeyValueHeads] = heads;
  sizes[kHeadWidth] = model.head_width_or_default() / head_parts(model);
  sizes[kWidth] = model.family == models::Family::Gpt2 ? 1 : model.width;  // GPT-2's is that of its heads
  sizes[kMlpWidth] = model.mlp_width_or_default();
  sizes[kVocabulary] = model.vocabulary;
  sizes[kRank] = model.lora ? model.lora->rank : 1;
  return sizes;
}

Options with_prime_sizes(const Options& options) {
  const ActivationSizes sizes = tiny_sizes(options);
  Options tiny = options;
  models::ModelConfig& model = tiny.model;
  tiny.batch = sizes[kBatch];
  model.context = sizes[kContext];
  model.heads = sizes[kShared] * sizes[kKeyValueHeads];
  const int64_t head_width = head_parts(model) * sizes[kHeadWidth];
  if (model.family == models::Family::Llama) {
    model.key_value_heads = sizes[kKeyValueHeads];
    model.head_width = head_width;
    model.width = sizes[kWidth];
  } else {
    model.width = model.heads * head_width;
  }
  model.mlp_width = sizes[kMlpWidth];
  model.vocabulary = sizes[kVocabulary];
  if (model.lora) model.lora->rank = sizes[kRank];
  model.begin_token.reset();  // they may be beyond the vocabulary
  model.end_tokens.clear();
  return tiny;
}

namespace {

double product_of(const ActivationSizes& sizes, const std::array<int, std::tuple_size_v<ActivationSizes>>& powers) {
  double product = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int power = 0; power < powers[i]; ++power) product *= static_cast<double>(sizes[i]);
  }
  return product;
}

}  // namespace

const std::set<PlannedActivations::Form>& PlannedActivations::forms_of(const Options& options) const {
  const auto [place, is_new] = forms_->try_emplace({options.param_dtype, options.batch == 1});
  std::set<Form>& forms = place->second;
  if (!is_new) return forms;
  const ActivationSizes sizes = tiny_sizes(options);
  for (const std::vector<int64_t>& moment : run_(with_prime_sizes(options))) {
    Form form;
    for (int64_t bytes : moment) {
      Form::key_type powers{};
      for (size_t i = 0; i < sizes.size(); ++i) {
        for (; bytes > 0 && sizes[i] > 1 && bytes % sizes[i] == 0; bytes /= sizes[i]) ++powers[i];
      }
      form[powers] += bytes;
    }
    forms.insert(std::move(form));
  }
  return forms;
}

double PlannedActivations::bytes(const Options& options) const {
  if (!run_) return 0;
  const ActivationSizes sizes = activation_sizes(options);
  double most = 0;
  for (const Form& form : forms_of(options)) {
    double sum = 0;
    for (const auto& [powers, factor] : form) sum += static_cast<double>(factor) * product_of(sizes, powers);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace trainer
