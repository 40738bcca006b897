// fsdp-convert: checkpoints and models from one format to another.
#include <algorithm>
#include <exception>
#include <string>

#include "console/program_start.h"
#include "console/terminal.h"
#include "fsdp-convert/convert_command.h"

namespace {

void start_convert() { trainer::start_program("fsdp-convert"); }
AT_PROGRAM_START(start_convert);

}  // namespace

int main(int count, char** arguments) try {
  const int width = trainer::standard_output().interactive ? std::clamp(trainer::terminal_width(), 60, 120) : 80;
  const int code = converter::convert_command({arguments + 1, arguments + count}, width);
  return trainer::end_output("fsdp-convert", trainer::Printed::Results, code);
} catch (const std::exception& error) {
  trainer::print_error(std::string("fsdp-convert: ") + error.what() + "\n");
  return 1;
}
