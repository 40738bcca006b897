// One voice for what all ranks of a job find wrong.
#pragma once

#include <fsdp/world.h>

#include <string>
#include <vector>

namespace trainer {

// True if any rank has problems. The first that has some prints them: rank 0, where it is one of those. A collective.
bool refuse_together(fsdp::World& world, const std::vector<std::string>& problems);

}  // namespace trainer
