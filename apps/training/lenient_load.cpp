#include "training/lenient_load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace trainer {

namespace {

std::string few(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  const size_t shown = std::min(names.size(), kMost);
  const std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "));
  return names.size() == shown ? list : fmt::format("{} and {} more", list, names.size() - shown);
}

// As the library's errors call it.
constexpr std::string_view kInCode = "with strict off", kOption = "with --no-strict";

constexpr std::string_view kShapes =
    "\nShapes follow from --model, --vocabulary, --context, --width, --layers and --heads, among others: give those of "
    "the weights.";

}  // namespace

std::string text_of(const fsdp::LoadDifferences& differences) {
  std::vector<std::string> texts;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) texts.push_back(what + few(names));
  };
  add("begin anew: ", differences.missing);
  add("passed over: ", differences.extra);
  add("only the first rows of ", differences.grown);
  add("cut to the rows of --context: ", differences.cut);
  add("converted: ", differences.converted);
  return fmt::format("{}", fmt::join(texts, "; "));
}

fsdp::LoadDifferences load_leniently(const RunOptions& options,
                                     const std::function<void(bool strict, fsdp::LoadDifferences&)>& load) try {
  fsdp::LoadDifferences differences;
  load(!options.no_strict, differences);
  return differences;
} catch (const fsdp::Error& error) {
  std::string text = error.what();
  const size_t at = options.no_strict ? std::string::npos : text.find(kInCode);
  if (at != std::string::npos) text.replace(at, kInCode.size(), kOption);
  if (text.find(" has shape ") != std::string::npos) text += kShapes;
  if (text == error.what()) throw;
  throw fsdp::Error(text);
}

}  // namespace trainer
