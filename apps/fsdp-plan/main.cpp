// fsdp-plan: the memory and the traffic of a training, known before it runs. Without LibTorch, so it starts at once.
#include <algorithm>
#include <exception>
#include <string>

#include "console/program_start.h"
#include "console/terminal.h"
#include "fsdp-plan/plan_command.h"

namespace {

void start_plan() { trainer::start_program("fsdp-plan"); }
AT_PROGRAM_START(start_plan);

}  // namespace

int main(int count, char** arguments) try {
  const int width = trainer::standard_output().interactive ? std::clamp(trainer::terminal_width(), 60, 120) : 80;
  const int code = planner::plan_command({arguments + 1, arguments + count}, static_cast<size_t>(width));
  return trainer::end_output("fsdp-plan", trainer::Printed::Results, code);
} catch (const std::exception& error) {
  trainer::print_error(std::string("fsdp-plan: ") + error.what() + "\n");
  return 1;
}
