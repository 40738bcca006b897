// The parts of a training run that go into a checkpoint, and their names.
#pragma once

#include <functional>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "collectives/group.h"
#include "fsdp/checkpoint.h"

namespace fsdp::checkpoint {

// This rank's tensors, which share memory with the model and the optimizer: "model.<parameter>",
// "optimizer.<state>.<parameter>", and on rank 0 "buffer.<buffer>".
NamedTensors contents_of(const Checkpoint& checkpoint);

Manifest manifest_of(const Checkpoint& checkpoint);

// Runs `body` on every rank and throws on every rank when it threw on one, naming that one. A collective.
void all_succeed(collectives::Group& group, const std::string& what, const std::function<void()>& body);

}  // namespace fsdp::checkpoint
