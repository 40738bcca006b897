// The checkpoints of a run: RUN/step-N, when they are due, which are kept, and which one to go on from.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer {

// The complete checkpoints directly under `run`, the newest first; none where there is no such folder. A load checks
// the files themselves. Throws fsdp::Error for a folder that cannot be read.
std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& run);

// The same, with those folders of a checkpoint's name that hold anything but have no manifest any more.
std::vector<std::filesystem::path> checkpoints_and_remains_of(const std::filesystem::path& run);

// Why a checkpoint was passed over: "RUN/step-6 cannot be loaded: ...".
std::string cannot_be_loaded(const std::filesystem::path& checkpoint, const std::string& why);

// Gives checkpoints of a run beyond `step` another name, "step-N.set-aside-1" say: a run that went back to an earlier
// step goes its own way from there, and must not go on from the other one. Nothing is lost. Throws fsdp::Error.
void set_later_checkpoints_aside(const std::filesystem::path& run, int64_t step);

// Sets aside an entry that lies where a checkpoint is to be saved and may not be replaced: a damaged checkpoint, a
// link, or a folder with other files. Returns what a person should know; empty: nothing was in the way.
std::string make_way_for(const std::filesystem::path& checkpoint);

// Removes what a process that was killed left in the folder of a run while it saved or removed a checkpoint there, and
// gives a checkpoint that it had moved aside its name back. The caller holds the run's lock. Folders that another
// program is saving to are left alone, and so are folders that cannot be removed.
void tidy_after_crash(const std::filesystem::path& run);

// Removes all but the newest `keep` checkpoints of a run; 0 keeps all. Lookalikes, symbolic links and files that are no
// part of a checkpoint stay. A folder that cannot be removed as a whole is a problem.
struct RemovedCheckpoints {
  std::vector<std::filesystem::path> folders;  // that are gone
  std::vector<std::string> problems;           // a sentence each
};
RemovedCheckpoints remove_old_checkpoints(const std::filesystem::path& run, int64_t keep);

// When a checkpoint is due by the clock.
class SaveTimer {
 public:
  // minutes 0: never
  explicit SaveTimer(double minutes) : minutes_(minutes), saved_(Clock::now()) {}
  bool is_due() const {
    return minutes_ > 0 && std::chrono::duration<double, std::ratio<60>>(Clock::now() - saved_).count() >= minutes_;
  }
  void saved() { saved_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  double minutes_;
  Clock::time_point saved_;
};

}  // namespace trainer
