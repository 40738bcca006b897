#include "planning/planned_activations.h"

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

void PlannedActivations::add(const Options& options, const std::vector<int64_t>& storages, int64_t times) {
  const ActivationSizes sizes = tiny_sizes(options);
  Form& form = forms_[kind_of(options)];
  for (int64_t bytes : storages) {
    Form::key_type powers{};
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (; bytes > 0 && sizes[i] > 1 && bytes % sizes[i] == 0; bytes /= sizes[i]) ++powers[i];
    }
    form[powers] += times * bytes;
  }
}

double PlannedActivations::bytes(const Options& options) const {
  const auto form = forms_.find(kind_of(options));
  if (form == forms_.end()) return 0;
  const ActivationSizes sizes = activation_sizes(options);
  double sum = 0;
  for (const auto& [powers, factor] : form->second) {
    auto product = static_cast<double>(factor);
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (int power = 0; power < powers[i]; ++power) product *= static_cast<double>(sizes[i]);
    }
    sum += product;
  }
  return sum;
}

}  // namespace trainer
