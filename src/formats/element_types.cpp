#include "formats/element_types.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::formats {

namespace {

constexpr std::string_view kModule = "torch.";

std::string_view within_torch(std::string_view global) {
  return global.starts_with(kModule) ? global.substr(kModule.size()) : std::string_view();
}

template <typename Matches>
std::optional<torch::ScalarType> type_where(const Matches& matches) {
  const auto found = std::ranges::find_if(element_types(), matches);
  return found == element_types().end() ? std::nullopt : std::optional(found->type);
}

}  // namespace

const std::vector<ElementType>& element_types() {
  static const std::vector<ElementType> types = {
      {torch::kFloat64, "DoubleStorage", "float64"}, {torch::kFloat32, "FloatStorage", "float32"},
      {torch::kFloat16, "HalfStorage", "float16"},   {torch::kBFloat16, "BFloat16Storage", "bfloat16"},
      {torch::kInt64, "LongStorage", "int64"},       {torch::kInt32, "IntStorage", "int32"},
      {torch::kInt16, "ShortStorage", "int16"},      {torch::kInt8, "CharStorage", "int8"},
      {torch::kUInt8, "ByteStorage", "uint8"},       {torch::kBool, "BoolStorage", "bool"}};
  return types;
}

std::optional<torch::ScalarType> type_of_storage(std::string_view global) {
  return type_where([name = within_torch(global)](const ElementType& one) { return name == one.storage; });
}

std::optional<torch::ScalarType> type_of_dtype(std::string_view global) {
  return type_where([name = within_torch(global)](const ElementType& one) { return name == one.dtype; });
}

const ElementType& names_of(torch::ScalarType type) {
  const auto found = std::ranges::find(element_types(), type, &ElementType::type);
  FSDP_CHECK(found != element_types().end(), "no format here has tensors of {}", toString(type));
  return *found;
}

std::optional<int64_t> bytes_of(torch::ScalarType type, const std::vector<int64_t>& shape) {
  auto bytes = static_cast<int64_t>(c10::elementSize(type));
  bool is_empty = false;
  for (const int64_t size : shape) {
    is_empty = is_empty || size == 0;
    if (size < 0 || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes))) return std::nullopt;
  }
  if (bytes > int64_t{1} << 62) return std::nullopt;
  return is_empty ? 0 : bytes;
}

}  // namespace fsdp::formats
