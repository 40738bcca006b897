// What rank 0 finds out for all: file systems of several hosts need not show the same.
#pragma once

#include <fsdp/world.h>

#include <functional>
#include <string>

namespace trainer {

// The text that `find` returns on rank 0, on every rank; elsewhere it is not called. When it throws fsdp::Error, so
// does every rank, and rank 0's alone says why. A collective.
std::string from_first_rank(fsdp::World& world, const std::function<std::string()>& find);

}  // namespace trainer
