// The memory of activations of each block of a pipeline, as a function of a run's sizes. As planned_activations.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "planning/planned_activations.h"
#include "planning/run_kind.h"
#include "planning/tensor_forms.h"

namespace trainer {

// For a micro-batch, in bytes.
struct BlockBytes {
  double kept = 0;  // from the end of the forward to the backward
  double most = 0;  // in the block's own passes, at most
};

// Copies share what they have found out. One thread at a time.
class PlannedBlocks {
 public:
  // The bytes of each storage that autograd keeps for one block.
  struct Storages {
    std::vector<int64_t> kept;                  // at the end of its forward
    std::vector<std::vector<int64_t>> moments;  // until the end of its backward, whenever some are freed
  };
  // `block`: of models::blocks(tiny.model), which has one layer; the last one ends with the loss. `recomputed`: the
  // layer runs again in the backward.
  using Run = std::function<Storages(const RunOptions& tiny, int block, bool recomputed)>;

  // No activations: 0 bytes.
  PlannedBlocks() = default;
  explicit PlannedBlocks(Run run, KeptLogitBytes kept_logits = nullptr)
      : run_(std::move(run)), kept_logits_(std::move(kept_logits)) {}

  // The bytes of models::blocks(options.model)[block], on a rank of the run's tensor axis. Runs a tiny block for each
  // kind of run and block.
  BlockBytes bytes(const RunOptions& options, int block) const;

 private:
  struct Forms {
    TensorForms kept;
    std::set<TensorForms> moments;
  };
  using Key = std::tuple<RunKind, models::Family, bool, int, bool>;  // and sequence_parallel, the block, recomputed

  const Forms& forms_of(const RunOptions& own, int block, bool recomputed) const;

  Run run_;
  KeptLogitBytes kept_logits_;
  std::shared_ptr<std::map<Key, Forms>> forms_ = std::make_shared<std::map<Key, Forms>>();
};

}  // namespace trainer
