#include "run/threads_before.h"

#include <fsdp/error.h>

#include <cstdlib>
#include <filesystem>

#include "files/json.h"
#include "run/checkpoints.h"

namespace trainer {

int64_t threads_before(const RunOptions& options) try {
  constexpr int64_t kMostBytes = 1 << 20, kMost = 1024;
  const char* said = std::getenv("OMP_NUM_THREADS");
  const bool is_said = said != nullptr && *said != '\0';
  const bool goes_on = !options.run.empty() && options.resume != "never" && options.checkpoint.empty();
  if (is_said || !goes_on || checkpoints_of(options.run).empty()) return 0;
  const std::filesystem::path path = std::filesystem::path(options.run) / "config.json";
  const std::string name = path.string();  // the message is not used
  const fsdp::files::Json before = fsdp::files::read_json(path, name, kMostBytes);
  const int64_t ranks = fsdp::files::whole_number(before, "ranks", name, 1, kMost);
  return ranks == options.ranks ? fsdp::files::whole_number(before, "threads", name, 0, kMost) : 0;
} catch (const fsdp::Error&) {
  return 0;  // what is wrong with the run is said where it is loaded
}

}  // namespace trainer
