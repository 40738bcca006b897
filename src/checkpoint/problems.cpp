#include "checkpoint/problems.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::checkpoint {

void throw_if_any(const std::vector<std::string>& problems, const std::string& what, const std::string& advice) {
  constexpr size_t kShown = 20;  // so that all is on one screen
  if (problems.empty()) return;
  FSDP_CHECK(problems.size() > 1, "{}: {}. {}", what, problems.front(), advice);
  const auto shown = static_cast<ptrdiff_t>(std::min(problems.size(), kShown));
  const size_t left = problems.size() - static_cast<size_t>(shown);
  const std::string rest = left > 0 ? fmt::format("\n  and {} more", left) : "";
  FSDP_CHECK(false, "{}:\n  {}{}\n{}", what, fmt::join(problems.begin(), problems.begin() + shown, "\n  "), rest,
             advice);
}

}  // namespace fsdp::checkpoint
