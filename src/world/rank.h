// One rank's life, once it is known which: threads, World, body, and what is said of a failure.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <string>

#include "files/reading.h"
#include "fsdp/world.h"
#include "memory/held_memory.h"
#include "world/environment.h"
#include "world/error_file.h"
#include "world/identity.h"

namespace fsdp::world {

// Runs `body` and returns this rank's exit code. A failure is given to `on_failure`, which prints it or has it printed.
// The connections stay until then, so that no rank sees a loss before its explanation.
int run_rank(const Identity& identity, const std::function<void(World&)>& body,
             const std::function<std::shared_ptr<State>()>& connect,
             const std::function<void(const RankError&)>& on_failure);

// The process is the only rank.
int run_alone(const LaunchOptions& options, const std::function<void(World&)>& body);
// The process is a rank of a launcher's job.
int run_launched(const LauncherJob& job, const LaunchOptions& options, const std::function<void(World&)>& body);
// Things of the launcher's that the ranks that it forks share.
struct LauncherShares {
  files::Descriptor store;                     // the file in which they meet
  RankErrors errors;                           // why they fail
  const memory::HeldMemory* memory = nullptr;  // what outlives them; none: nothing does
};
// The process was forked to be a rank.
int run_forked(const Identity& identity, LauncherShares& shares, const LaunchOptions& options,
               const std::function<void(World&)>& body);
// The calling thread is a rank. It meets the others, threads of this process or of others, in `store`.
int run_thread(const Identity& identity, const c10::intrusive_ptr<c10d::Store>& store, const LaunchOptions& options,
               const std::function<void(World&)>& body, const std::function<void(const RankError&)>& on_failure);

}  // namespace fsdp::world
