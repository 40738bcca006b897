// Dtypes of tensors, as the formats call them.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string_view>
#include <vector>

namespace fsdp::formats {

// The types that every format here has.
struct ElementType {
  torch::ScalarType type;
  const char* storage;  // of Python's module torch: "FloatStorage"
  const char* dtype;    // there, too: "float32"
};
const std::vector<ElementType>& element_types();

// By either name, as a pickle has it: "torch.FloatStorage", "torch.float32". None for others.
std::optional<torch::ScalarType> type_of_storage(std::string_view global);
std::optional<torch::ScalarType> type_of_dtype(std::string_view global);
// The row of a type. Throws Error for one that the formats do not have.
const ElementType& names_of(torch::ScalarType type);

// The bytes of elements of this type and shape, up to 2^62; none beyond.
std::optional<int64_t> bytes_of(torch::ScalarType type, const std::vector<int64_t>& shape);

}  // namespace fsdp::formats
