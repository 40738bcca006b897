#include "world/identity.h"

#include <fmt/format.h>

#include <sstream>

namespace fsdp::world {

std::string encode(const Place& place) {
  return fmt::format("{} {} {}", place.local_rank, place.local_size, place.machine);
}

Place decode_place(const std::string& text) {
  Place place;
  std::istringstream fields(text);
  fields >> place.local_rank >> place.local_size >> place.machine;
  return place;
}

int ranks_of_every_host(const std::vector<Place>& places) {
  const int size = static_cast<int>(places.size()), each = places[0].local_size;
  if (each < 1 || size % each != 0) return 0;
  for (int rank = 0; rank < size; ++rank) {
    const Place& place = places[rank];
    const bool fits = place.local_size == each && place.local_rank == rank % each;
    if (!fits || place.machine != places[rank - rank % each].machine) return 0;
  }
  return each;
}

}  // namespace fsdp::world
