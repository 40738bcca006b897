// A run's folder that is removed, moved or changed while the run writes to it.
#pragma once

#include <fsdp/error.h>

#include <functional>
#include <string>

#include "metrics/metrics.h"
#include "metrics/tensorboard.h"
#include "run/run_lock.h"

namespace trainer {

// Other files are at the folder's path: the run cannot continue there.
class FolderTaken : public fsdp::Error {
 public:
  using Error::Error;
};

// The files that a run keeps open in its folder, and the function that writes the others.
struct FolderFiles {
  RunLock& lock;
  MetricsFile& metrics;
  TensorBoardFile& tensorboard;
  std::function<void()> write_settings;

  bool are_in_place() const { return lock.is_in_place() && metrics.is_in_place(); }
};

// Makes again what is not there of the lock, the record, the settings and TensorBoard's file; where the folder is gone,
// the folder, too. Returns a sentence with what was missing. Throws FolderTaken, and writes nothing, where the files of
// another run or a model are there; fsdp::Error where something cannot be written.
std::string repair_folder(const std::string& run, const FolderFiles& files);

}  // namespace trainer
