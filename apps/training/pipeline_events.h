// A pipeline's idle time and cuts, for people. Pure.
#pragma once

#include <fsdp/pipeline.h>

#include <string>

namespace trainer {

// The idle share beside the formula's, and `of_passes`, that of Pipeline::idle_share_of_passes.
std::string idle_text(const fsdp::PipelineReport& report, double of_passes, const std::string& schedule);

// Names other cuts if the slowest stage would take at least a twentieth less time with them, by the measured times of
// the blocks. Empty: there are none.
std::string better_cuts_text(const fsdp::PipelineReport& report);

}  // namespace trainer
