// `fsdp-train doctor`.
#pragma once

namespace trainer {

// Looks at this machine and this build, and prints what it found. Returns the exit code: 1 where a problem keeps
// fsdp-train from training. To be called before anything has started a thread.
int run_doctor();

}  // namespace trainer
