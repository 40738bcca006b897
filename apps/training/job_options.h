// The options of a job that runs: the number of ranks is known, and a launcher may have decided it.
#pragma once

#include <fsdp/world.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "options/options.h"
#include "training/job_memory.h"
#include "training/this_host.h"

namespace trainer {

// Fills in the options that the job decides, not the command line: under torchrun and its like the number of ranks is
// theirs. The tensor parts are those of the checkpoint that the run goes on from. Chooses the options of --plan, for
// `free` memory. Returns problems. Throws AgreedError as plan_options does. A collective.
std::vector<std::string> resolve_for_job(RunOptions& options, fsdp::World& world, const data::Corpus& corpus,
                                         const FreeMemory& free, JobMemory& job);

// Sets the tensor parts, which decide bits, to those of a checkpoint, unless they are given. An empty path means the
// checkpoint that the run goes on from. A collective.
void keep_parts(RunOptions& options, fsdp::World& world, const std::filesystem::path& checkpoint = {});

// As it is divided among the ranks that there are.
RunOptions as_run_by(int ranks, const RunOptions& options);

}  // namespace trainer
