// Tensors in pickles, as torch.save writes them: a call of torch._utils._rebuild_tensor_v2 with a storage, which is an
// entry of the zip file that the pickle lies in, and where in it the tensor's elements are.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/pickle_reader.h"

namespace fsdp::formats {

// All numbers are elements of `type`. They fit: strides are not negative, and the last element lies in the storage.
struct PickledTensor {
  std::string storage;  // its name among those of the file
  int64_t storage_numel = 0;
  torch::ScalarType type = torch::kFloat32;
  int64_t offset = 0;  // of the first element, in the storage
  std::vector<int64_t> shape, strides;

  int64_t numel() const;
  int64_t span() const;  // from the first element to behind the last one; 0 where there is none
  bool is_contiguous() const;
  bool operator==(const PickledTensor&) const = default;
};

// None for values that are no tensors. Throws Error, beginning with `name`, for one that is damaged, whose dtype no
// format here has, or that is expanded: with more elements than its storage.
std::optional<PickledTensor> pickled_tensor(const Pickle& pickle, const Pickle::Value& value, const std::string& name);

// True if a file of tensors may name it: what torch.save writes for state dicts, and what torch::serialize writes for
// archives (modules, whose attributes are read as if they were a dict).
bool is_allowed_in_state(std::string_view global);
// A class of an archive's.
bool is_module_class(std::string_view global);

// A tuple of whole numbers that are not negative, as shapes and strides are; also one inside of a torch.Size.
std::vector<int64_t> numbers_in(const Pickle& pickle, const Pickle::Value& value, const std::string& name);

}  // namespace fsdp::formats
