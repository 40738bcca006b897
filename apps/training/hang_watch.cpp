#include "training/hang_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/patience.h"
#include "console/terminal.h"
#include "training/thread_stacks.h"

namespace trainer {

namespace {

using std::chrono::milliseconds;

// How often a rank looks whether another one of its host stands still.
constexpr milliseconds kLook{250};
// For the others to write their stacks.
constexpr milliseconds kForOthers{2000};

constexpr int kExitCode = 1;

}  // namespace

HangWatch::HangWatch(std::chrono::seconds longest, Watched watched, const RunPhase& phase, SharedFlag& hangs)
    : watched_(std::move(watched)), phase_(phase), hangs_(hangs) {
  if (longest.count() > 0) thread_ = std::thread([this, longest] { watch(longest); });
}

HangWatch::~HangWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool HangWatch::ends_within(milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return ends_; });
}

void HangWatch::watch(std::chrono::seconds longest) {
  fsdp::Patience patience(longest);
  for (int64_t seen = phase_.changes(); !ends_within(std::min(kLook, patience.until_next_look()));) {
    if (hangs_.is_set()) return tell("another rank stands still");
    const int64_t now = phase_.changes();
    if (now != std::exchange(seen, now)) patience = fsdp::Patience(longest);
    if (!patience.is_over()) continue;
    const bool is_first = hangs_.set_first();
    tell(fmt::format("no progress for {} s", longest.count()));
    if (!is_first || ends_within(kForOthers)) return;
    _exit(kExitCode);  // nothing can be destroyed while another thread stands still in it
  }
}

void HangWatch::tell(const std::string& why) const {
  const std::string collective = watched_.waits_for();
  const std::string text = fmt::format("{}: {}, in {}{}", watched_.who, why, phase_.text(),
                                       collective.empty() ? "" : ", where it waits for " + collective);
  std::ofstream file(watched_.file);
  file << text << "\n\n" << stacks_of_all_threads() << std::flush;
  print_error(file ? fmt::format("{}; its stacks are in {}\n", text, watched_.file)
                   : fmt::format("{}; its stacks could not be written to {}\n", text, watched_.file));
}

}  // namespace trainer
