#include "planning/planned_tensors.h"

#include <algorithm>
#include <cstddef>

#include "planning/many_layers.h"

namespace trainer {

namespace {

// Memory that a kernel computes in: that the primes of sizes divide its bytes is chance. A tensor has each size once,
// and the context twice where it has heads.
bool is_of_kernel(const TensorForms::Powers& powers, const ActivationSizes& sizes) {
  for (size_t i = 0; i < powers.size(); ++i) {
    if (powers[i] > (i == kContextPlace ? 2 : 1)) return true;
  }
  const bool may_have_heads = sizes[kSharedPlace] * sizes[kKeyValueHeadsPlace] > 1;
  return powers[kContextPlace] == 2 && may_have_heads && powers[kSharedPlace] + powers[kKeyValueHeadsPlace] == 0;
}

// One rank alone has no others: what autograd makes of a step's only micro-batch stays where it is.
bool keeps_gradients(const RunOptions& options) { return options.ranks == 1 && options.micro_batches == 1; }

double bytes_of_moment(const TensorForms& moment, const ActivationSizes& sizes, double logits_bytes,
                       bool counts_gradients) {
  double others = 0, logits = 0, of_embedding = 0;
  moment.tell(sizes, [&](const TensorForms::Powers& powers, double number, double each) {
    const bool has_tokens = powers[kBatchPlace] + powers[kContextPlace] > 0, has_entries = powers[kVocabularyPlace] > 0;
    if (!has_tokens && counts_gradients) {
      others += number * each;
      return;
    }
    if (is_of_kernel(powers, sizes)) return;
    if (has_tokens) {
      (has_entries ? logits : others) += number * each;
    } else if (has_entries) {
      of_embedding = std::max(of_embedding, each);  // the head's is written where it is reduced
    }
  });
  return others + std::min(logits, logits_bytes) + of_embedding;
}

}  // namespace

const std::set<TensorForms>& PlannedTensors::forms_of(const RunOptions& options) const {
  const auto [place, is_new] = forms_->try_emplace(kind_of(options));
  if (!is_new) return place->second;
  const RunOptions tiny = with_prime_sizes(options);
  for (const auto& moment : run_(tiny)) place->second.emplace(moment, activation_sizes(tiny));
  return place->second;
}

double PlannedTensors::bytes(const RunOptions& options, double logits_bytes) const {
  if (!run_) return 0;
  return along_layers(options, [&](const RunOptions& run) {
    double most = 0;
    for (const TensorForms& moment : forms_of(run))
      most = std::max(most, bytes_of_moment(moment, activation_sizes(run), logits_bytes, keeps_gradients(run)));
    return most;
  });
}

}  // namespace trainer
