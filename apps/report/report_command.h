// fsdp-train report RUN...: the page of one or more runs.
#pragma once

#include <string>
#include <vector>

namespace trainer {

// Takes the words after "report", writes the page and says where it is. Returns the exit code: 2 where the words are
// wrong, 1 where a run cannot be read or the page not be written.
int report_command(std::vector<std::string> arguments);

}  // namespace trainer
