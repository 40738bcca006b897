#include "base/rank_names.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/rank_thread.h"

namespace fsdp {

struct RankNames {
  struct Place {
    std::string text;
    size_t among = 0;  // so many ranks
  };

  std::mutex mutex;
  std::string of_this_rank;
  std::map<int, Place> places;  // by rank
};

namespace {

// Those of a process that is a rank. Threads that end later than main use them.
const std::shared_ptr<RankNames>& names_of_process() {
  static const auto* const names = new std::shared_ptr<RankNames>(std::make_shared<RankNames>());
  return *names;
}

// Null: the process's.
thread_local std::shared_ptr<RankNames> names_of_thread;

RankNames& names() { return names_of_thread ? *names_of_thread : *names_of_process(); }

}  // namespace

RankScope::RankScope() : RankScope(std::make_shared<RankNames>()) {}

RankScope::RankScope(std::shared_ptr<RankNames> rank) : before_(std::exchange(names_of_thread, std::move(rank))) {}

RankScope::~RankScope() { names_of_thread = std::move(before_); }

std::shared_ptr<RankNames> RankScope::current() { return names_of_thread ? names_of_thread : names_of_process(); }

std::string text_of_this_rank() {
  RankNames& all = names();
  const std::lock_guard lock(all.mutex);
  return all.of_this_rank;
}

void set_this_rank(int rank, int size) {
  RankNames& all = names();
  const std::lock_guard lock(all.mutex);
  all.of_this_rank = fmt::format(" rank {}/{}", rank, size);
}

std::string text_of_rank(int rank) {
  RankNames& all = names();
  const std::lock_guard lock(all.mutex);
  const auto place = all.places.find(rank);
  return place == all.places.end() ? fmt::format("rank {}", rank)
                                   : fmt::format("rank {} ({})", rank, place->second.text);
}

bool is_on_mesh(int rank) {
  RankNames& all = names();
  const std::lock_guard lock(all.mutex);
  return all.places.contains(rank);
}

void set_places(const std::vector<int>& ranks, const std::vector<std::string>& places) {
  RankNames& all = names();
  const std::lock_guard lock(all.mutex);
  if (ranks.size() == 1) return;  // it says nothing
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankNames::Place& place = all.places[ranks[i]];
    if (ranks.size() >= place.among) place = {places[i], ranks.size()};
  }
}

}  // namespace fsdp
