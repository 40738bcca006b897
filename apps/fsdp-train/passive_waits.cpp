#include "fsdp-train/passive_waits.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "training/stop_request.h"

namespace trainer {

namespace {

constexpr const char* kPolicy = "OMP_WAIT_POLICY";

bool is_decided() { return std::getenv(kPolicy) != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr; }

// Not where the dynamic linker was started with the program's name as an argument: it has no linker of its own, and is
// the file that would be executed.
bool is_started_by_itself() { return getauxval(AT_BASE) != 0; }

}  // namespace

bool computes(std::string_view word) {
  constexpr std::array<std::string_view, 9> kOthers = {"completion", "help", "man",    "models",   "prepare",
                                                       "report",     "-h",   "--help", "--version"};
  return std::ranges::find(kOthers, word) == kOthers.end();
}

void wait_passively(char** arguments) {
  if (is_decided() || !is_started_by_itself()) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  const HeldNotice notice;
  setenv(kPolicy, "passive", 1);
  execv(program.c_str(), arguments);
  unsetenv(kPolicy);
}

}  // namespace trainer
