#include "planning/planned_activations.h"

#include <algorithm>
#include <cstddef>

#include "planning/many_layers.h"

namespace trainer {

namespace {

// Neither 2 nor 3: bytes of an element, and queries, keys and values in one matrix, are factors of their own.
constexpr ActivationSizes kPrimes = {13, 17, 5, 7, 11, 19, 23, 29, 31};

// Llama turns halves of heads, whose width is even.
int64_t head_parts(const models::ModelConfig& model) { return model.family == models::Family::Llama ? 2 : 1; }

// GPT-2's is that of its heads.
bool has_own_width(const models::ModelConfig& model) { return model.family == models::Family::Llama || model.is_part; }

ActivationSizes tiny_sizes(const RunOptions& options) {
  ActivationSizes sizes = activation_sizes(options);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) sizes[i] = kPrimes[i];
  }
  return sizes;
}

}  // namespace

ActivationSizes activation_sizes(const RunOptions& options) {
  const models::ModelConfig& model = options.model;
  const int64_t heads = model.key_value_heads_or_default();
  ActivationSizes sizes;
  sizes[kBatchPlace] = options.batch;
  sizes[kContextPlace] = model.context;
  sizes[kSharedPlace] = model.heads / heads;
  sizes[kKeyValueHeadsPlace] = heads;
  sizes[kHeadWidthPlace] = model.head_width_or_default() / head_parts(model);
  sizes[kWidthPlace] = has_own_width(model) ? model.width : 1;
  sizes[kMlpWidthPlace] = model.mlp_width_or_default();
  sizes[kVocabularyPlace] = model.vocabulary;
  sizes[kRankPlace] = model.lora ? model.lora->rank : 1;
  return sizes;
}

RunOptions with_prime_sizes(const RunOptions& options) {
  const ActivationSizes sizes = tiny_sizes(options);
  RunOptions tiny = options;
  models::ModelConfig& model = tiny.model;
  tiny.batch = sizes[kBatchPlace];
  model.context = sizes[kContextPlace];
  model.heads = sizes[kSharedPlace] * sizes[kKeyValueHeadsPlace];
  const int64_t head_width = head_parts(model) * sizes[kHeadWidthPlace];
  if (has_own_width(model)) {
    model.key_value_heads = sizes[kKeyValueHeadsPlace];
    model.head_width = head_width;
    model.width = sizes[kWidthPlace];
  } else {
    model.width = model.heads * head_width;
  }
  model.mlp_width = sizes[kMlpWidthPlace];
  model.vocabulary = sizes[kVocabularyPlace];
  if (model.lora) model.lora->rank = sizes[kRankPlace];
  model.begin_token.reset();  // they may be beyond the vocabulary
  model.end_tokens.clear();
  return tiny;
}

namespace {

using Powers = std::array<int, std::tuple_size_v<ActivationSizes>>;

double product_of(const ActivationSizes& sizes, const Powers& powers) {
  double product = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int power = 0; power < powers[i]; ++power) product *= static_cast<double>(sizes[i]);
  }
  return product;
}

}  // namespace

Powers powers_of_logits(const ActivationSizes& sizes) {
  Powers powers{};
  for (const ActivationPlace size : {kBatchPlace, kContextPlace, kVocabularyPlace})
    powers[size] = sizes[size] > 1 ? 1 : 0;
  return powers;
}

const std::set<PlannedActivations::Form>& PlannedActivations::forms_of(const RunOptions& options) const {
  const auto [place, is_new] = forms_->try_emplace(kind_of(options));
  std::set<Form>& forms = place->second;
  if (!is_new) return forms;
  const ActivationSizes sizes = tiny_sizes(options);
  for (const std::vector<int64_t>& moment : run_(with_prime_sizes(options))) forms.insert(form_of(moment, sizes));
  return forms;
}

PlannedActivations::Form PlannedActivations::form_of(const std::vector<int64_t>& storages,
                                                     const ActivationSizes& tiny) {
  Form form;
  for (int64_t bytes : storages) {
    Powers powers{};
    for (size_t i = 0; i < tiny.size(); ++i) {
      for (; bytes > 0 && tiny[i] > 1 && bytes % tiny[i] == 0; bytes /= tiny[i]) ++powers[i];
    }
    form[powers] += bytes;
  }
  return form;
}

const PlannedActivations::BudgetForms& PlannedActivations::budget_forms_of(const RunOptions& options) const {
  const auto [place, is_new] = budget_forms_->try_emplace(kind_of(options));
  BudgetForms& forms = place->second;
  if (!is_new) return forms;
  const ActivationSizes sizes = tiny_sizes(options);
  const fsdp::RecomputedStorages storages = budgeted_.run(with_prime_sizes(options));
  for (const auto& block : storages.blocks) {
    forms.blocks.push_back({.products = form_of(block.products, sizes),
                            .all = form_of(block.all, sizes),
                            .unsaved_products = form_of(block.unsaved_products, sizes)});
  }
  for (const auto& moment : storages.moments) {
    forms.moments.emplace(moment.open_blocks, form_of(moment.storages, sizes));
  }
  return forms;
}

double PlannedActivations::bytes_of(const Form& form, const RunOptions& options) const {
  const ActivationSizes sizes = activation_sizes(options);
  const Powers of_logits = powers_of_logits(sizes);
  double sum = 0;
  for (const auto& [powers, factor] : form) {
    sum += kept_logits_ && powers == of_logits ? static_cast<double>(kept_logits_(options))
                                               : static_cast<double>(factor) * product_of(sizes, powers);
  }
  return sum;
}

fsdp::ActivationTimeline PlannedActivations::timeline(const RunOptions& options) const {
  using fsdp::KeptResults;
  const BudgetForms& forms = budget_forms_of(options);
  const auto bytes = [&](const Form& form) { return static_cast<int64_t>(bytes_of(form, options)); };
  fsdp::ActivationTimeline timeline;
  for (const auto& block : forms.blocks) {
    timeline.blocks.push_back({.name = std::to_string(timeline.blocks.size()),
                               .choices = {{.keep = KeptResults::None, .seconds = 1},
                                           {.keep = KeptResults::Products,
                                            .kept_bytes = bytes(block.products),
                                            .backward_bytes = bytes(block.unsaved_products),
                                            .seconds = 1 - kProductShare},
                                           {.keep = KeptResults::All, .kept_bytes = bytes(block.all)}}});
  }
  timeline.peaks.resize(forms.blocks.size() + 1);
  for (const auto& [open, form] : forms.moments) timeline.peaks[open] = std::max(timeline.peaks[open], bytes(form));
  return timeline;
}

fsdp::ActivationPlan PlannedActivations::plan(const RunOptions& options) const {
  return budgeted_.plan(timeline(options), static_cast<int64_t>(options.activation_memory.value()));
}

double PlannedActivations::bytes(const RunOptions& options) const {
  if (!run_) return 0;
  if (options.activation_memory && budgeted_.run) {
    const fsdp::ActivationTimeline found = timeline(options);
    const int64_t least = std::ranges::max(found.peaks);
    const auto budget = static_cast<int64_t>(*options.activation_memory);
    return static_cast<double>(budgeted_.plan(found, std::max(least, budget)).peak_bytes);
  }
  return along_layers(options, [this](const RunOptions& run) {
    double most = 0;
    for (const Form& form : forms_of(run)) most = std::max(most, bytes_of(form, run));
    return most;
  });
}

}  // namespace trainer
