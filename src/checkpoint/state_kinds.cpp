#include "checkpoint/state_kinds.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/contents.h"

namespace fsdp::checkpoint {

namespace {

constexpr std::array<std::string_view, 6> kConvertible{"F64",      "Float32", "F16",
                                                       "BFloat16", "Block8",  "Block8 without a sign"};

// The kind of the codes that `kind` has the scales of; empty: none.
std::string kind_of_codes(const Manifest::Parameter& parameter, const std::string& kind) {
  if (!kind.ends_with(kScales)) return "";
  std::string codes = kind.substr(0, kind.size() - std::string_view(kScales).size());
  return is_block8(parameter, codes) ? codes : "";
}

}  // namespace

bool is_block8(const Manifest::Parameter& parameter, const std::string& kind) {
  const auto codes = parameter.tensors.find(kind);
  const bool has_codes = codes != parameter.tensors.end() && (codes->second == "I8" || codes->second == "U8");
  if (!has_codes) return false;
  const auto scales = parameter.tensors.find(kind + kScales);
  return scales != parameter.tensors.end() && scales->second == "F32";
}

std::string format_of(const Manifest::Parameter& parameter, const std::string& kind) {
  const std::string& dtype = parameter.tensors.at(kind);
  if (is_block8(parameter, kind)) return dtype == "I8" ? "Block8" : "Block8 without a sign";
  if (dtype == "BF16") return "BFloat16";
  return dtype == "F32" ? "Float32" : dtype;
}

bool is_convertible(const std::string& from, const std::string& to) {
  const auto is_number = [](std::string_view format) {
    return std::ranges::find(kConvertible, format) != kConvertible.end();
  };
  const bool both_block8 = from.starts_with("Block8") && to.starts_with("Block8");
  return from == to || (is_number(from) && is_number(to) && !both_block8);
}

std::vector<std::string> state_kinds(const Manifest::Parameter& parameter) {
  std::vector<std::string> kinds;
  for (const auto& [kind, dtype] : parameter.tensors) {
    if (kind != kModel && kind_of_codes(parameter, kind).empty()) kinds.push_back(kind);
  }
  for (const auto& [kind, value] : parameter.scalars) kinds.push_back(kind);
  std::ranges::sort(kinds);
  return kinds;
}

bool has_state(const Manifest::Parameter& saved, const Manifest::Parameter& wanted) {
  const bool has_tensors = std::ranges::all_of(wanted.tensors, [&](const auto& tensor) {
    const std::string& kind = tensor.first;
    return kind == kModel || !kind_of_codes(wanted, kind).empty() || saved.tensors.contains(kind);
  });
  const auto is_saved = [&](const auto& scalar) { return saved.scalars.contains(scalar.first); };
  return has_tensors && std::ranges::all_of(wanted.scalars, is_saved);
}

}  // namespace fsdp::checkpoint
