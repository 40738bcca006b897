#include "support/scratch_directory.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace fsdp::testing {

namespace {

constexpr char kVariable[] = "FSDP_TEST_SCRATCH";

}  // namespace

ScratchDirectory::ScratchDirectory() {
  if (const char* given = std::getenv(kVariable)) {
    path_ = given;
    return;
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "fsdp-test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no directory can be made at " + pattern);
  path_ = pattern;
  owner_ = true;
  setenv(kVariable, path_.c_str(), 1);
}

ScratchDirectory::~ScratchDirectory() {
  if (!owner_) return;
  unsetenv(kVariable);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fsdp::testing
