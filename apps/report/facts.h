// Facts of a run that are no measurements: model, ranks, machine, times, and the command that started it.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

// A sentence for the head of the page: "step 120 of 600, began 2026-11-23 03:01 UTC". Text, not HTML.
std::string progress_of(const RunFolder& run);

// HTML: why a run stopped or failed; empty where there is nothing to say.
std::string notice_of(const RunFolder& run);

// HTML: a card per run.
std::string facts_section(const std::vector<RunFolder>& runs);

}  // namespace trainer
