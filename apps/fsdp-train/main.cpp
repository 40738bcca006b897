// fsdp-train: trains a GPT-2 on a text, sharded over ranks.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "inputs.h"
#include "options.h"
#include "report/report_command.h"
#include "train.h"

namespace {

constexpr int kUsageError = 2;

int refuse(const std::vector<std::string>& problems) {
  fmt::print(stderr, "fsdp-train: {}\n",
             problems.size() == 1 ? "1 problem" : fmt::format("{} problems", problems.size()));
  for (const std::string& problem : problems) fmt::print(stderr, "  {}\n", problem);
  fmt::print(stderr, "fsdp-train --help lists all options. Nothing was written.\n");
  return kUsageError;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count > 1 && std::string_view(arguments[1]) == "report") {
    return trainer::report_command({arguments + 2, arguments + count});
  }
  const trainer::CommandLine command_line = trainer::parse_command_line({arguments + 1, arguments + count});
  if (!command_line.help.empty()) {
    fmt::print("{}", command_line.help);
    return 0;
  }
  std::vector<std::string> problems = command_line.problems;
  const trainer::Inputs inputs = trainer::read_inputs(command_line.options);
  problems.insert(problems.end(), inputs.problems.begin(), inputs.problems.end());
  if (!problems.empty()) return refuse(problems);
  return trainer::train(command_line.options, inputs.text);
} catch (const std::exception& error) {
  fmt::print(stderr, "fsdp-train: {}\n", error.what());
  return 1;
}
