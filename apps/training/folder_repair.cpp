#include "training/folder_repair.h"

#include <fmt/format.h>

#include "run/run_folder.h"

namespace trainer {

namespace {

// While the folder is still the run's, the files in it are, too: its removal may not be finished.
void take_lock(const std::string& run, RunLock& lock) try {
  const bool is_own = lock.has_same_folder();  // asked first: the folder may go meanwhile
  const std::string problem = is_own ? foreign_lock_problem(run) : foreign_folder_problem(run);
  if (!problem.empty()) throw FolderTaken(problem);
  lock.restore();
} catch (const fsdp::files::LockHeld& held) {
  throw FolderTaken(held.what());
}

// If the folder was there all along, the file was changed by a user, and not written by another run.
void restore_record(const std::string& run, MetricsFile& metrics, bool is_same_folder) {
  if (metrics.is_in_place()) return;
  if (!metrics.is_replaced()) return metrics.restore();
  if (is_same_folder) return metrics.restore_beside();
  throw FolderTaken(
      fmt::format("the run folder '{}' was removed or moved, and is another run's by now. This run ends, so that it "
                  "writes over nothing there.",
                  run));
}

}  // namespace

std::string repair_folder(const std::string& run, const FolderFiles& files) {
  const bool has_record = files.metrics.is_in_place(), has_lock = files.lock.is_in_place();
  if (!has_lock && !has_record && files.metrics.is_replaced()) restore_record(run, files.metrics, false);  // throws
  if (!has_lock) take_lock(run, files.lock);
  restore_record(run, files.metrics, has_lock);
  files.write_settings();
  files.tensorboard.restore();
  if (has_record) return fmt::format("'{}/lock' was removed: it is there again", run);
  if (has_lock) return fmt::format("'{}/metrics.jsonl' was removed or changed: it is there again, with all lines", run);
  return fmt::format(
      "the run folder '{}' was removed or moved: its settings and its whole record are there again, and nothing else "
      "that it held",
      run);
}

}  // namespace trainer
