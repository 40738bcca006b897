// The steps that all loads share: they write values from files, or from memory, into a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_ranks.h"
#include "engine/model.h"

namespace fsdp::checkpoint {

struct Filling {
  schedule::Call call;                     // LoadCheckpoint or WriteState
  std::string what;                        // the call and its source, for messages
  std::vector<bool> there;                 // for each parameter: whether some of its values come
  std::vector<bool> whole;                 // whether all of them do
  std::function<void()> write;             // to this rank's pieces and buffers
  std::function<void()> break_off;         // undoes what it can, where some rank's `write` threw
  const CheckpointRanks* ranks = nullptr;  // that load together; null: those of the model
};

// Writes on every rank while nothing else uses the model. Throws Error on every rank where a write threw on one: until
// other loads have filled what is lost then, every use of the model is an error. A collective.
void fill(engine::Model& model, const Filling& filling);

}  // namespace fsdp::checkpoint
