// The memory of activations where they are offloaded (fsdp::Options::offload_activations), as a function of a run's
// sizes: what stays in memory, and what lies in files. As planned_activations.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "options/options.h"
#include "planning/run_kind.h"
#include "planning/tensor_forms.h"

namespace trainer {

// As fsdp::kLeastOffloadBytes.
constexpr double kLeastOffloaded = 64 << 10;

// Copies share what they have found out. One thread at a time.
class PlannedOffload {
 public:
  // Tensors, where all are offloaded that may be.
  struct Moment {
    std::map<int64_t, int64_t> in_memory, offloaded;  // how many there are, by their bytes
  };
  // At every moment of a micro-batch when they are most.
  using Run = std::function<std::vector<Moment>(const RunOptions& tiny)>;

  // No activations: 0 bytes.
  PlannedOffload() = default;
  explicit PlannedOffload(Run run, KeptLogitBytes kept_logits = nullptr)
      : run_(std::move(run)), kept_logits_(std::move(kept_logits)) {}
  bool is_known() const { return run_ != nullptr; }

  // Per rank, each when it is most. Runs a tiny model for each kind of run that it is asked about.
  struct Bytes {
    double in_memory = 0, in_files = 0;
  };
  Bytes bytes(const RunOptions& options) const;

 private:
  using Forms = std::pair<TensorForms, TensorForms>;  // in memory, offloaded

  const std::set<Forms>& forms_of(const RunOptions& options) const;
  Bytes most_of(const RunOptions& options) const;

  Run run_;
  KeptLogitBytes kept_logits_;
  std::shared_ptr<std::map<RunKind, std::set<Forms>>> forms_ = std::make_shared<std::map<RunKind, std::set<Forms>>>();
};

}  // namespace trainer
