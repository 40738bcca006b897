// Facts that the ranks tell each other of a step: one exchange, after which all of them know the same and decide alike.
#pragma once

#include <fsdp/world.h>

#include <vector>

namespace trainer {

struct StepFacts {
  std::vector<float> losses = {};  // of this rank's micro-batches
  double seconds = 0;              // that its passes took
  double wait_seconds = 0;         // of these, for other ranks
  bool save_is_due = false;        // by its clock
};

// The facts of every rank, in rank order. `most`: losses of any rank. A collective.
std::vector<StepFacts> exchange_facts(fsdp::World& world, const StepFacts& own, int64_t most);

// The mean of all losses, added in the order of the micro-batches in the job (data_order.h): a sum in any other order
// would have other digits on another number of ranks. Ranks beyond some rank may have one micro-batch less. The
// `ranks_of_replica` neighbours that hold the model once have the same losses, which count once.
double mean_loss(const std::vector<StepFacts>& ranks, int ranks_of_replica = 1);

// The first rank that has a loss which is not finite; -1 for none.
int rank_with_loss_not_finite(const std::vector<StepFacts>& ranks);

// The signal that any rank received, 0 for none. A collective.
int agreed_signal(fsdp::World& world, int own);

}  // namespace trainer
