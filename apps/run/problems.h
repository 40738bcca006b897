// Problems with what was given: all of them at once.
#pragma once

#include <string>
#include <vector>

#include "options/commands.h"

namespace trainer {

inline constexpr int kUsageError = 2;  // the exit code

// A sentence each, on standard error; long ones are cut, as a value from a file can be of any length. `configuration`
// is the file that options were read from, if there was one. The last line names the help of `command`.
void print_problems(const std::vector<std::string>& problems, const std::string& configuration = "",
                    Command command = Command::Train);

// True if a launcher's environment says that this process is a rank: torchrun's and its like, Open MPI's or SLURM's.
// Then all ranks find the same problems, and should not all say them.
bool is_started_as_rank();

}  // namespace trainer
