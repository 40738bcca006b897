// The optimizer that --optimizer names, with the groups of parameters that it treats apart.
#pragma once

#include <fsdp/optim.h>

#include <memory>

#include "options/options.h"

namespace trainer {

class RunOptimizer {
 public:
  // Throws fsdp::Error for a model that the optimizer is not for.
  // On a mesh this rank's part of the model has some of its parameters.
  RunOptimizer(const RunOptions& options, fsdp::ShardedModel& model);

  // `share` of the highest learning rates, which the schedule gives.
  void set_lr(double share);
  // The matrices' rate now, where it is not the others'.
  std::optional<double> muon_lr() const;
  fsdp::Optimizer& optimizer() { return *optimizer_; }

 private:
  double lr_, highest_muon_lr_;
  double share_ = 1;
  std::unique_ptr<fsdp::PieceOptimizer> optimizer_;
  fsdp::Muon* muon_ = nullptr;  // the same, where it is one
};

}  // namespace trainer
