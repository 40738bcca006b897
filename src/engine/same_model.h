// Checks that every rank shards the same model in the same way.
#pragma once

#include "collectives/group.h"
#include "engine/model_spec.h"

namespace fsdp::engine {

// Throws Error on every rank where one has other options or other units than rank 0. A collective.
void check_same_model(const ModelSpec& spec, collectives::Group& group);

}  // namespace fsdp::engine
