// The files of --profile, which rank 0 writes.
#pragma once

#include <fsdp/trace.h>

#include <string>

#include "options/options.h"
#include "training/training.h"

namespace trainer {

// Ends the trace, and has rank 0 write FOLDER/trace.json, with the events of all ranks on rank 0's clock, and
// FOLDER/profile.html. Returns what a person should know, on rank 0. A file that cannot be written is no error.
// `peak_flops`: operations per second of all ranks. A collective.
std::string write_profile(Training& training, fsdp::Trace& trace, StepRange steps, double peak_flops);

}  // namespace trainer
