#include "run/run_lock.h"

#include <fmt/format.h>
#include <fsdp/error.h>

namespace trainer {

namespace fs = std::filesystem;
using fsdp::files::FileLock;
using fsdp::files::LockHeld;

namespace {

std::unique_ptr<FileLock> locked(const fs::path& run) {
  constexpr const char* kName = "lock";
  // A run that was killed may be started again before the last of its processes is gone.
  constexpr std::chrono::seconds kPatience(2);
  std::error_code error;
  fs::create_directories(run, error);
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be made: {}.", run.string(), error.message()));
  try {
    return std::make_unique<FileLock>(run / kName, kPatience);
  } catch (const LockHeld& held) {
    throw LockHeld(
        fmt::format("run folder '{}' is in use by {}. Wait until that run has ended, or name another --run. If that "
                    "process is no longer there, and the file system has no locks, remove '{}'.",
                    run.string(), held.holder(), (run / kName).string()),
        held.holder());
  } catch (const fsdp::Error& failed) {
    throw fsdp::Error(fmt::format("run folder '{}' cannot be written: {}", run.string(), failed.what()));
  }
}

}  // namespace

RunLock::RunLock(const fs::path& run) : run_(run), lock_(locked(run)) {}

void RunLock::restore() {
  if (!is_in_place()) lock_ = locked(run_);
}

}  // namespace trainer
