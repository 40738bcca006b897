#include "planning/planned_activations.h"

#include <algorithm>
#include <cstddef>
#include <utility>

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

using SizePowers = std::array<int, std::tuple_size_v<ActivationSizes>>;

// Of the sizes in a tensor's bytes, which are left with what is no size.
SizePowers powers_in(int64_t& bytes, const ActivationSizes& sizes) {
  SizePowers powers{};
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (; bytes > 0 && sizes[i] > 1 && bytes % sizes[i] == 0; bytes /= sizes[i]) ++powers[i];
  }
  return powers;
}

double product_of(const ActivationSizes& sizes, const SizePowers& powers) {
  double product = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int power = 0; power < powers[i]; ++power) product *= static_cast<double>(sizes[i]);
  }
  return product;
}

}  // namespace

std::vector<PlannedMoment> PlannedActivations::moments_of(const Options& tiny) const {
  if (tiny.offload_activations) return offloaded_(tiny);
  std::vector<PlannedMoment> moments;
  for (auto& in_memory : run_(tiny)) moments.push_back({std::move(in_memory), {}});
  return moments;
}

const std::set<PlannedActivations::Form>& PlannedActivations::forms_of(const Options& options) const {
  const auto [place, is_new] =
      forms_->try_emplace({options.param_dtype, options.batch == 1, options.offload_activations});
  std::set<Form>& forms = place->second;
  if (!is_new) return forms;
  const ActivationSizes sizes = tiny_sizes(options);
  for (const PlannedMoment& moment : moments_of(with_prime_sizes(options))) {
    Form form;
    for (int64_t bytes : moment.in_memory) {
      const Powers powers = powers_in(bytes, sizes);
      form.in_memory[powers] += bytes;
    }
    for (int64_t bytes : moment.offloaded) {
      const Powers powers = powers_in(bytes, sizes);
      ++form.offloaded[{powers, bytes}];
    }
    forms.insert(std::move(form));
  }
  return forms;
}

double PlannedActivations::Form::offloaded_bytes(const ActivationSizes& sizes, bool large) const {
  double sum = 0;
  for (const auto& [tensor, number] : offloaded) {
    const double bytes = static_cast<double>(tensor.second) * product_of(sizes, tensor.first);
    if ((bytes >= kLeastOffloaded) == large) sum += static_cast<double>(number) * bytes;
  }
  return sum;
}

double PlannedActivations::bytes(const Options& options) const {
  if (!run_) return 0;
  const ActivationSizes sizes = activation_sizes(options);
  double most = 0;
  for (const Form& form : forms_of(options)) {
    double sum = form.offloaded_bytes(sizes, /*large=*/false);
    for (const auto& [powers, factor] : form.in_memory) sum += static_cast<double>(factor) * product_of(sizes, powers);
    most = std::max(most, sum);
  }
  return most;
}

double PlannedActivations::offloaded_bytes(const Options& options) const {
  if (!run_ || !options.offload_activations) return 0;
  const ActivationSizes sizes = activation_sizes(options);
  double most = 0;
  for (const Form& form : forms_of(options)) most = std::max(most, form.offloaded_bytes(sizes, /*large=*/true));
  return most;
}

}  // namespace trainer
