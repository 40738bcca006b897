#include "world/identity.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace fsdp::world {

namespace {

// Each host's and kind's ranks, as texts.
std::vector<std::string> devices_of_hosts(const std::vector<Place>& places) {
  std::vector<std::pair<std::string, std::vector<size_t>>> found;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const std::string name = fmt::format("{} on host {}", places[rank].device, places[rank].host);
    const auto same = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.first == name; });
    if (same == found.end()) {
      found.push_back({name, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, ranks] : found) texts.push_back(fmt::format("{} (rank {})", name, fmt::join(ranks, ", ")));
  return texts;
}

}  // namespace

std::string encode(const Place& place) {
  return fmt::format("{} {} {} {} {}", place.local_rank, place.local_size, place.device, place.host, place.machine);
}

Place decode_place(const std::string& text) {
  Place place;
  std::istringstream fields(text);
  fields >> place.local_rank >> place.local_size >> place.device >> place.host >> place.machine;
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

void check_same_kind_of_device(const std::vector<Place>& places) {
  constexpr size_t kShown = 10;
  const auto as_first = [&](const Place& place) { return place.device == places[0].device; };
  if (std::all_of(places.begin(), places.end(), as_first)) return;
  std::vector<std::string> found = devices_of_hosts(places);
  if (found.size() > kShown) {
    const size_t more = found.size() - kShown;
    found.resize(kShown);
    found.push_back(fmt::format("and {} more", more));
  }
  FSDP_CHECK(
      false,
      "found ranks that compute on different kinds of devices, expected one kind: {}. Where it is cpu or "
      "none, CUDA finds no GPU: is the driver loaded, and what does CUDA_VISIBLE_DEVICES say? To compute on the CPU "
      "everywhere, use the backend hosts or gloo.",
      fmt::join(found, "; "));
}

}  // namespace fsdp::world
