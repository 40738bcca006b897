// Whole copies of the state, by name.
#pragma once

#include "engine/model.h"

namespace fsdp::engine {

// Every parameter in fp32, then every buffer, on the CPU. One unit at a time is there in addition. A collective.
NamedTensors full_state(Model& model, const FullStateOptions& options);

}  // namespace fsdp::engine
