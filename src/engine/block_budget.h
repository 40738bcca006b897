// The choice for one block of a model with a budget for activations.
//
// The block and the model share it: the model decides, between steps, and the block's forward asks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "fsdp/activation_memory.h"
#include "interpose/measured_blocks.h"

namespace fsdp::engine {

// Not for concurrent use: a model's forwards come from one thread at a time.
class BlockBudget {
 public:
  BlockBudget(std::shared_ptr<interpose::MeasuredBlocks> measured, size_t number)
      : measured_(std::move(measured)), number_(number) {}

  // A call with inputs of so many bytes. It keeps only them until the decision, and if they are larger than in the
  // decision.
  KeptResults kept_by_call(int64_t input_bytes) {
    if (measured_) largest_input_ = std::max(largest_input_, input_bytes);
    return input_bytes <= largest_input_ ? keep_ : KeptResults::None;
  }
  // None: it is decided.
  const std::shared_ptr<interpose::MeasuredBlocks>& measured() const { return measured_; }
  size_t number() const { return number_; }  // among the measured

  void decide(KeptResults keep) {
    keep_ = keep;
    measured_.reset();
  }

 private:
  std::shared_ptr<interpose::MeasuredBlocks> measured_;
  size_t number_;
  int64_t largest_input_ = 0;
  KeptResults keep_ = KeptResults::None;
};

}  // namespace fsdp::engine
