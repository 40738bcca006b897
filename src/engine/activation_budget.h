// Keeps a model's activations within Options::activation_memory: measures a step in which every Recomputed block keeps
// its inputs alone, decides what each is to keep, and tells them.
//
//   step 1   backward ends: the ranks exchange what they measured, and find the same plan, or the error that there is
//            none; each further backward of the step does so again, with all so far
//   step 2   begins: the blocks keep what the last plan says
//
// The plan must be the same on all ranks, as a block that runs again may use other units than one that does not. Owned
// by the model, whose lock covers all calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/group.h"
#include "engine/block_budget.h"
#include "fsdp/activation_memory.h"

namespace fsdp::engine {

class ActivationBudget {
 public:
  using Blocks = std::vector<std::pair<std::string, std::shared_ptr<BlockBudget>>>;

  // A budget of so many bytes; with 0 every call does nothing. The blocks by name, in an order that is the same on
  // every rank; `count` is of the model's activations.
  ActivationBudget(int64_t bytes, const std::vector<std::string>& blocks,
                   const std::shared_ptr<interpose::ActivationCount>& count);

  // In that order. Each is to be asked by its module.
  const Blocks& blocks() const { return blocks_; }

  // A backward that every rank has run is over. A collective until the plan is in force. Throws Error, the same on all
  // ranks, where the budget is below the least.
  void backward_ends(collectives::Group& group);
  // A step has changed the parameters: the plan holds from now on, if there is one.
  void step_ends();
  // The decision in force; none before.
  const std::optional<ActivationDecision>& decision() const { return decision_; }

 private:
  bool measures() const { return bytes_ > 0 && !decision_; }

  int64_t bytes_;
  std::shared_ptr<interpose::MeasuredBlocks> measured_;
  Blocks blocks_;
  std::optional<ActivationDecision> found_, decision_;
};

}  // namespace fsdp::engine
