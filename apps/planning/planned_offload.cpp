#include "planning/planned_offload.h"

#include <algorithm>

#include "planning/many_layers.h"

namespace trainer {

const std::set<PlannedOffload::Forms>& PlannedOffload::forms_of(const RunOptions& options) const {
  const auto [place, is_new] = forms_->try_emplace(kind_of(options));
  if (!is_new) return place->second;
  const RunOptions tiny = with_prime_sizes(options);
  const ActivationSizes primes = activation_sizes(tiny);
  for (const Moment& moment : run_(tiny))
    place->second.emplace(TensorForms(moment.in_memory, primes), TensorForms(moment.offloaded, primes));
  return place->second;
}

PlannedOffload::Bytes PlannedOffload::bytes(const RunOptions& options) const {
  if (!run_) return {};
  return {.in_memory = along_layers(options, [this](const RunOptions& run) { return most_of(run).in_memory; }),
          .in_files = along_layers(options, [this](const RunOptions& run) { return most_of(run).in_files; })};
}

PlannedOffload::Bytes PlannedOffload::most_of(const RunOptions& options) const {
  Bytes most;
  const ActivationSizes sizes = activation_sizes(options);
  const TensorForms::Powers of_logits = powers_of_logits(sizes);
  for (const auto& [in_memory, offloaded] : forms_of(options)) {
    Bytes bytes;
    in_memory.tell(sizes, [&](const auto& powers, double number, double each) {
      const bool are_kept_logits = kept_logits_ && powers == of_logits;
      bytes.in_memory += are_kept_logits ? static_cast<double>(kept_logits_(options)) : number * each;
    });
    offloaded.tell(sizes, [&](const auto&, double number, double each) {
      (each >= kLeastOffloaded ? bytes.in_files : bytes.in_memory) += number * each;
    });
    most = {std::max(most.in_memory, bytes.in_memory), std::max(most.in_files, bytes.in_files)};
  }
  return most;
}

}  // namespace trainer
