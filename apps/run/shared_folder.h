// Checks that all hosts of the job share the run's folder: every rank writes its part of a checkpoint there, and any
// rank may resume the run.
#pragma once

#include <fsdp/world.h>

#include <string>

namespace trainer {

// Rank 0 leaves a file in the folder, which the others look for; it is gone afterwards. Throws AgreedError, which names
// the ranks that do not find it. Where the folder is not there yet on rank 0, it returns false, and the question is
// open. On one host the answer is known. A collective.
bool check_folder_is_shared(fsdp::World& world, const std::string& run);

}  // namespace trainer
