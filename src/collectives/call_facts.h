// Facts of a call that must be equal on all ranks: its kind, its tensor's dtype and shape, as numbers.
//
// They travel with the call's first messages (first_messages.h). Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace fsdp::collectives {

struct CallFacts {
  using Numbers = std::array<int64_t, 16>;

  const char* call = nullptr;  // its name in messages, a literal: "all_reduce_"
  Numbers own = {};
  // By rank; the call sets them, on every rank, if they differ. Then it has changed nothing.
  std::vector<Numbers> of_ranks = {};

  bool differ() const { return !of_ranks.empty(); }
};

}  // namespace fsdp::collectives
