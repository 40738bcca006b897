#include "checkpoint/problems.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::checkpoint {

void throw_if_any(const std::vector<std::string>& problems, const std::string& what, const std::string& advice) {
  constexpr size_t kShown = 30;
  if (problems.empty()) return;
  const size_t shown = std::min(problems.size(), kShown);
  const std::string rest = shown < problems.size() ? fmt::format("; and {} more", problems.size() - shown) : "";
  FSDP_CHECK(false, "{}: {}{}. {}", what, fmt::join(problems.begin(), problems.begin() + shown, "; "), rest, advice);
}

}  // namespace fsdp::checkpoint
