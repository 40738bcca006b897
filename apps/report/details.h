// The parts of a report that are words: events, checkpoints, samples and what could not be read. Each is HTML, and
// empty where there is nothing to show.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

std::string events_section(const std::vector<RunFolder>& runs);
std::string checkpoints_section(const std::vector<RunFolder>& runs);  // the present ones
std::string samples_section(const std::vector<RunFolder>& runs);
std::string problems_section(const std::vector<RunFolder>& runs);

// The newest events of a run: a report of all would be long, and its curves hidden behind marks.
std::vector<Event> shown_events(const RunMetrics& metrics);

}  // namespace trainer
