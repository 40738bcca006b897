#include "fsdp-convert/values.h"

#include "formats/format.h"

namespace converter {

const std::map<std::string, torch::ScalarType>& dtypes() {
  static const std::map<std::string, torch::ScalarType> all = {
      {"fp32", torch::kFloat32}, {"bf16", torch::kBFloat16}, {"fp16", torch::kFloat16}};
  return all;
}

std::vector<std::string> dtype_words() {
  std::vector<std::string> words;
  for (const auto& entry : dtypes()) words.push_back(entry.first);
  return words;
}

std::vector<std::string> format_words() {
  std::vector<std::string> words;
  for (const auto& entry : fsdp::formats::formats()) words.emplace_back(entry.word);
  return words;
}

}  // namespace converter
