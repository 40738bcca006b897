// The numbers behind a report's curves, for the program on the page.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

// {"runs": [{"name", "step": [...], "tokens": [...], "seconds": [...],
//            "series": {"loss": {"mean": [...], "low": [...], "high": [...]}, "validation_loss": {"step": [...], ...}},
//            "memory": [{"name", "bytes": [...]}], "events": [{"step", "text"}]}]}
// Arrays of a run are as long as its "step", except in a series with its own steps. "low" and "high" are absent if each
// number is of one record. A null is an unknown number, or one that is not finite. However long the runs are, the
// result has some 400 kB per run, and 3 MB at most for up to thirty.
std::string curves_json(const std::vector<RunFolder>& runs);

}  // namespace trainer
