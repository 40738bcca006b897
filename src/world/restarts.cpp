#include "world/restarts.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::world {

namespace {

using std::chrono::milliseconds;

// A job that ran for less has failed soon.
constexpr milliseconds kSoon{10'000};
// Before the second restart in a row of such jobs; then twice as long each time.
constexpr milliseconds kFirstRestartPause{200};
constexpr milliseconds kLongestRestartPause{10'000};
constexpr int kMostDoublings = 10;

}  // namespace

int Restarts::ranks_after(const JobFailure& failure) const {
  if (options_.restart_with) return options_.restart_with(failure);
  return count_ < options_.max_restarts ? failure.ranks : 0;
}

milliseconds Restarts::pause_after(milliseconds lasted) {
  short_lives_ = lasted < kSoon ? short_lives_ + 1 : 0;
  if (short_lives_ < 2) return milliseconds(0);
  return std::min(kLongestRestartPause, kFirstRestartPause * (1 << std::min(short_lives_ - 2, kMostDoublings)));
}

Restarts::Again Restarts::after(JobFailure failure, milliseconds lasted) {
  failure.restarts = count_;
  Again again{.ranks = ranks_after(failure)};
  if (again.ranks == 0) return again;
  FSDP_CHECK(again.ranks > 0, "launch: restart_with answered {}, expected 0 or a number of ranks", again.ranks);
  ++count_;
  again.pause = pause_after(lasted);
  const std::string most = options_.restart_with ? "" : fmt::format(" of {}", options_.max_restarts);
  const std::string who =
      again.ranks == failure.ranks
          ? fmt::format("all {}", failure.ranks)
          : fmt::format("{} {} in place of {}", again.ranks, again.ranks == 1 ? "rank" : "ranks", failure.ranks);
  again.message = fmt::format("Starting {} again (restart {}{}).", who, count_, most);
  return again;
}

}  // namespace fsdp::world
