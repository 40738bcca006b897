// The messages of a step between the ranks of a group, beside those of units: schedule::Peers over collectives.
//
// The model's lock covers all calls.
#pragma once

#include <string>
#include <vector>

#include "collectives/group.h"
#include "engine/activation_budget.h"
#include "engine/module_buffers.h"
#include "report/recorder.h"
#include "schedule/performer.h"

namespace fsdp::engine {

class GroupPeers final : public schedule::Peers {
 public:
  // All outlive it.
  GroupPeers(collectives::Group& group, report::Recorder& recorder, ModuleBuffers& buffers,
             ActivationBudget& activation_budget)
      : group_(group), recorder_(recorder), buffers_(buffers), activation_budget_(activation_budget) {}

  std::vector<std::vector<int64_t>> all_gather(std::span<const int64_t> words, const std::string& purpose) override;
  void ranks_differ(bool differ) override { group_.ranks_differ(differ); }
  bool reductions_as_before() override { return group_.reductions_as_before(); }
  void forward_begins(bool together) override;
  void backward_ended(bool together) override;
  void backward_measured() override;

 private:
  collectives::Group& group_;
  report::Recorder& recorder_;
  ModuleBuffers& buffers_;
  ActivationBudget& activation_budget_;
};

}  // namespace fsdp::engine
