// Facts that rank 0 finds out for all: file systems of several hosts need not show the same.
#pragma once

#include <fsdp/error.h>
#include <fsdp/world.h>

#include <functional>
#include <string>

namespace trainer {

// Thrown by every rank at the same place, so that none waits for another; rank 0's alone says why.
class AgreedError : public fsdp::Error {
 public:
  AgreedError(const fsdp::World& world, const std::string& why)
      : Error(world.rank() == 0 ? why : "rank 0 says what is wrong.") {}
};

// The text that `find` returns on rank 0, on every rank; elsewhere it is not called. When it throws, every rank throws
// AgreedError. A collective.
std::string from_first_rank(fsdp::World& world, const std::function<std::string()>& find);

}  // namespace trainer
