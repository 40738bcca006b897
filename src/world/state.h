// What a World shares between its copies: who this rank is and how to reach the others.
#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "collectives/group.h"

namespace fsdp::world {

struct Identity {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
};

class State {
 public:
  // `store` is shared by exactly these ranks, and may be null for a single one.
  State(Identity identity, std::string backend, std::chrono::milliseconds timeout,
        c10::intrusive_ptr<c10d::Store> store);

  const Identity& identity() const { return identity_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  collectives::Group& group() { return *group_; }

  // A further group of the same ranks with connections of its own. A collective.
  std::unique_ptr<collectives::Group> new_group();
  // The ranks of one color as a world of their own. A collective.
  std::shared_ptr<State> split(int color);

 private:
  Identity identity_;
  std::string backend_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  int children_ = 0;  // groups and splits made from this one so far: names them in the store
  std::unique_ptr<collectives::Group> group_;
};

}  // namespace fsdp::world
