// Who a rank is among the others.
#pragma once

namespace fsdp::world {

struct Identity {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
};

}  // namespace fsdp::world
