// Work that is divided among ranks: each piece falls to one of them. Pure arithmetic, with the same result on every
// rank.
#pragma once

#include <cstdint>
#include <vector>

namespace fsdp::optim {

class WorkShares {
 public:
  explicit WorkShares(int ranks) : so_far_(ranks) {}

  // The rank of each piece, by the work of all pieces: the largest first, to the rank that has least to do in this
  // call, then so far.
  std::vector<int> assign(const std::vector<int64_t>& work);

 private:
  std::vector<int64_t> so_far_;  // work of each rank
};

}  // namespace fsdp::optim
