// A small sharded model that is saved by processes which may die of it, and loaded by others: its values tell its steps
// apart.
//
// The processes are forked from the test's own, which must have no thread: it runs nothing of LibTorch itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/file_faults.h"

namespace crash {

struct Subject {
  int ranks = 1;              // that save it
  int64_t width = 24;         // of its layers: some kilobytes; of 700, some megabytes
  bool beside_steps = false;  // by save_checkpoint_async
  int64_t keep = 0;           // checkpoints that the first rank leaves there afterwards, as fsdp-train does; 0: all
};

// How a save ended.
struct Ending {
  bool was_killed = false;
  int exit_code = 0;
  std::vector<std::string> outcomes =
      {};  // by rank: "saved", the message of its Error, or nothing: it did not get there
  std::string output = {};

  bool returned() const;  // on some rank
  bool saved() const;     // on every rank
  bool refused() const;   // by an Error on every rank
};

Ending save(const Subject& subject, const std::filesystem::path& target, int64_t step,
            const file_faults::Plan& plan = {});

// A place that a save was interrupted at.
struct Found {
  std::filesystem::path target;
  std::vector<int64_t> steps = {};      // the newest checkpoint beside it, or at it, is of one of these
  bool may_be_none = false;             // or there is no checkpoint
  std::vector<std::string> names = {};  // that lie there when a further save has taken the place; empty: not tried
  std::string about = {};               // how it came to be so, for messages
};

// Loads each, saves there once more, and says what is wrong: with values, with what the save leaves there. Empty:
// nothing is.
std::string problems_of(const Subject& subject, const std::vector<Found>& all);

}  // namespace crash
