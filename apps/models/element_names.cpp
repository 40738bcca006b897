#include "models/element_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace models {

namespace {

constexpr std::array<std::string_view, 21> kFloats = {
    "fp64",           "fp32",    "fp16",          "bf16",        "fp8",
    "float64",        "float32", "float16",       "bfloat16",    "double",
    "float",          "half",    "f64",           "f32",         "f16",
    "f8_e4m3",        "f8_e5m2", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz"};
constexpr std::array<std::string_view, 22> kWholes = {
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "i64",   "i32",  "i16",
    "i8",    "u64",   "u32",   "u16",  "u8",     "bool",   "long",   "int",   "short", "char", "byte"};

}  // namespace

std::optional<ElementKind> element_kind(std::string_view name) {
  for (const std::string_view prefix : {"torch.", "c10::", "at::"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  std::string word(name);
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::ranges::find(kFloats, word) != kFloats.end()) return ElementKind::Float;
  if (std::ranges::find(kWholes, word) != kWholes.end()) return ElementKind::Whole;
  return std::nullopt;
}

}  // namespace models
