// fsdp-calibrate: measures this host, and prints it as a machine of fsdp-plan. `fsdp-plan calibrate` starts it, because
// fsdp-plan itself has no LibTorch.
#include <fmt/format.h>
#include <fsdp/version.h>

#include <exception>
#include <string>

#include "console/program_start.h"
#include "console/terminal.h"
#include "fsdp-calibrate/calibrated_host.h"
#include "metrics/machine.h"
#include "planning/hardware_toml.h"

namespace {

void start_calibrate() { trainer::start_program("fsdp-calibrate"); }
AT_PROGRAM_START(start_calibrate);

constexpr const char* kUsage =
    "Usage: fsdp-calibrate [--quick]\n"
    "Measures this host in about a minute, and prints it as a file of fsdp-plan --hardware. fsdp-plan calibrate starts "
    "it.\n"
    "  --quick  Takes seconds, and measures roughly: to try it.\n";

}  // namespace

int main(int count, char** arguments) try {
  const std::string word = count > 1 ? arguments[1] : "";
  if (word == "--help" || word == "-h") {
    trainer::print(kUsage);
  } else if (word == "--version") {
    trainer::print(fmt::format("fsdp-calibrate {}\n", FSDP_VERSION_STRING));
  } else if (count > 2 || (count == 2 && word != "--quick")) {
    trainer::print_error(
        fmt::format("fsdp-calibrate: '{}' is no option, or one too many.\n{}", arguments[count - 1], kUsage));
    return 2;
  } else {
    const auto progress = [](const std::string& line) { trainer::print_error(line + "\n"); };
    const fsdp::plan::Hardware host =
        calibration::calibrated_host(word == "--quick" ? calibration::kLittleEffort : calibration::Effort(), progress);
    trainer::print(trainer::hardware_toml(
        host, fmt::format("Measured by fsdp-calibrate {}, {}.", FSDP_VERSION_STRING, trainer::utc_time())));
  }
  return trainer::end_output("fsdp-calibrate", trainer::Printed::Results, 0);
} catch (const std::exception& error) {
  trainer::print_error(std::string("fsdp-calibrate: ") + error.what() + "\n");
  return 1;
}
