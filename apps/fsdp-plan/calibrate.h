// fsdp-plan calibrate: this host as a machine of plans.
#pragma once

#include <filesystem>
#include <string>

namespace planner {

struct Calibration {
  std::string text = {};     // the file of the machine
  std::string problem = {};  // a sentence; then there is no text
};

// Starts the program, which measures the host and prints a machine (fsdp-calibrate), and checks the figures. Takes a
// minute or so, and `quick` seconds. Its standard error is this program's.
Calibration calibrate(const std::filesystem::path& program, bool quick);

// The sibling of this program.
std::filesystem::path calibrating_program();

}  // namespace planner
