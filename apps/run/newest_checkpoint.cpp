#include "run/newest_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include "run/checkpoint_folder.h"
#include "run/checkpoints.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void none_can_be_loaded(const fs::path& run, const std::vector<std::string>& problems) {
  throw fsdp::Error(fmt::format("run '{}' has no checkpoint that can be loaded.\n    {}", run.string(),
                                fmt::join(problems, "\n    ")));
}

}  // namespace

NewestCheckpoint newest_checkpoint(const fs::path& run) {
  NewestCheckpoint newest{.newest_first = checkpoints_and_remains_of(run)};
  std::vector<fs::path>& all = newest.newest_first;
  if (all.empty()) {
    throw fsdp::Error(
        fmt::format("run '{}' has no checkpoint yet. Name another run, or the folder of a checkpoint.", run.string()));
  }
  while (!all.empty()) {
    try {
      check_shards(all.front());
      return newest;
    } catch (const fsdp::Error& error) {
      newest.passed_over.push_back(cannot_be_loaded(all.front(), error.what()));
      all.erase(all.begin());
    }
  }
  none_can_be_loaded(run, newest.passed_over);
}

fs::path load_newest(const NewestCheckpoint& newest, const std::function<void(const fs::path&)>& load,
                     const std::function<void(const std::string&)>& tell) {
  std::vector<std::string> passed_over = newest.passed_over;
  const bool is_alone = passed_over.empty() && newest.newest_first.size() == 1;
  for (const fs::path& checkpoint : newest.newest_first) {
    try {
      load(checkpoint);
      if (!passed_over.empty()) {
        tell(fmt::format("{}\n{} is taken in its place.\n", fmt::join(passed_over, "\n"), checkpoint.string()));
      }
      return checkpoint;
    } catch (const fsdp::Error& error) {
      if (is_alone) throw;
      passed_over.push_back(cannot_be_loaded(checkpoint, error.what()));
    }
  }
  none_can_be_loaded(newest.newest_first.front().parent_path(), passed_over);
}

}  // namespace trainer
