// The peak of tensors in memory in a micro-batch, as a function of a run's sizes: activations, gradients in transit,
// temporary results, logits, an embedding's gradient. With --eval-only those of a forward pass alone. As
// planned_activations.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "options/options.h"
#include "planning/run_kind.h"
#include "planning/tensor_forms.h"

namespace trainer {

// Copies share what they have found out. One thread at a time.
class PlannedTensors {
 public:
  // The tensors that there are, beside the model, whenever one goes: how many, by their bytes.
  using Moments = std::set<std::map<int64_t, int64_t>>;
  using Run = std::function<Moments(const RunOptions& tiny)>;

  // No tensors: 0 bytes.
  PlannedTensors() = default;
  explicit PlannedTensors(Run run) : run_(std::move(run)) {}
  bool is_known() const { return run_ != nullptr; }

  // Per rank, when they are most. Logits are at most `logits_bytes`; gradients of parameters have buffers, but for that
  // of an embedding, and those of one rank alone. Runs a tiny model for each kind of run that it is asked about.
  double bytes(const RunOptions& options, double logits_bytes) const;

 private:
  const std::set<TensorForms>& forms_of(const RunOptions& options) const;

  Run run_;
  std::shared_ptr<std::map<RunKind, std::set<TensorForms>>> forms_ =
      std::make_shared<std::map<RunKind, std::set<TensorForms>>>();
};

}  // namespace trainer
