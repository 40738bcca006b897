#include "run/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "console/terminal.h"
#include "files/printable.h"
#include "options/option_table.h"

namespace trainer {

namespace {

constexpr size_t kMostBytes = 2000;  // of a problem

std::string shortened(const std::string& problem) {
  if (problem.size() <= kMostBytes) return problem;
  return fmt::format("{} ... and {} more bytes", fsdp::files::printable_lines(problem.substr(0, kMostBytes)),
                     problem.size() - kMostBytes);
}

std::string help_line(Command command) {
  if (command == Command::Train) return "fsdp-train --help lists all options.";
  const bool has_options = std::ranges::any_of(option_rows(), [&](const Row& row) { return row.is_for(command); });
  return fmt::format("fsdp-train {} --help {}.", entry_of(command).word,
                     has_options ? "lists all its options" : "explains it");
}

}  // namespace

void print_problems(const std::vector<std::string>& problems, const std::string& configuration, Command command) {
  std::string text = fmt::format("fsdp-train: {} problem{}\n", problems.size(), problems.size() == 1 ? "" : "s");
  for (const std::string& problem : problems) text += fmt::format("  {}\n", shortened(problem));
  if (!configuration.empty()) text += fmt::format("Options were read from {} as well.\n", configuration);
  print_error(fmt::format("{}{} Nothing was written.\n", text, help_line(command)));
}

bool is_started_as_rank() {
  constexpr std::array kVariables = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
  return std::any_of(kVariables.begin(), kVariables.end(), [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  });
}

}  // namespace trainer
