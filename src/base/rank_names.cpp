#include "base/rank_names.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace fsdp {

namespace {

struct RankPlace {
  std::string text;
  size_t among = 0;  // so many ranks
};

struct RankPlaces {
  std::mutex mutex;
  std::map<int, RankPlace> by_rank;
};

// Threads that end later than main use it.
RankPlaces& rank_places() {
  static auto* const places = new RankPlaces;
  return *places;
}

}  // namespace

std::string text_of_rank(int rank) {
  RankPlaces& all = rank_places();
  const std::lock_guard lock(all.mutex);
  const auto place = all.by_rank.find(rank);
  return place == all.by_rank.end() ? fmt::format("rank {}", rank)
                                    : fmt::format("rank {} ({})", rank, place->second.text);
}

bool is_on_mesh(int rank) {
  RankPlaces& all = rank_places();
  const std::lock_guard lock(all.mutex);
  return all.by_rank.contains(rank);
}

void set_places(const std::vector<int>& ranks, const std::vector<std::string>& places) {
  RankPlaces& all = rank_places();
  const std::lock_guard lock(all.mutex);
  if (ranks.size() == 1) return;  // it says nothing
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankPlace& place = all.by_rank[ranks[i]];
    if (ranks.size() >= place.among) place = {places[i], ranks.size()};
  }
}

}  // namespace fsdp
