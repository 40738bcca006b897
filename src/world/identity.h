// Who a rank is among the others.
#pragma once

#include <string>
#include <vector>

namespace fsdp::world {

struct Identity {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  int restarts = 0;  // of the job, after failures
};

// A rank's own account of where it is.
struct Place {
  std::string machine;  // the same on two ranks only when they can share memory
  int local_rank = 0;
  int local_size = 1;
  std::string device = "cpu";  // the kind of it that the rank computes on, one word; none where it finds none
  std::string host = "?";      // for messages
};

std::string encode(const Place& place);
Place decode_place(const std::string& text);

// How many ranks each host has where all have as many, numbered one host's after another's; otherwise 0. `places` by
// rank.
int ranks_of_every_host(const std::vector<Place>& places);

// Throws Error, naming ranks and hosts, where they compute on different kinds of devices: such ranks would each wait
// for the others in another way. `places` by rank.
void check_same_kind_of_device(const std::vector<Place>& places);

}  // namespace fsdp::world
