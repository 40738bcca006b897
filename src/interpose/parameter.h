// A module's parameter, made a view of its unit's storage and given an accumulator of ours.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "interpose/unit_storage.h"

namespace fsdp::interpose {

// Keeps the parameter interposed as long as it lives. The tensor stays the user's: same identity, sizes, strides,
// requires_grad and hooks; its dtype becomes the storage's.
class AttachedParameter {
 public:
  // The parameter's bytes are `tensor.sizes()` with `strides` at `offset` elements of the storage.
  AttachedParameter(torch::Tensor tensor, std::string name, const c10::intrusive_ptr<UnitStorage>& storage,
                    int64_t offset, const std::vector<int64_t>& strides, int index);

  const torch::Tensor& tensor() const { return tensor_; }
  const std::string& name() const { return name_; }
  // Throws Error unless the tensor is still the view that was attached; `what` says what was about to happen.
  void check_attached(std::string_view what) const;
  // Autograd's saved copies of the parameter are out of date from now on.
  void mark_changed();
  // The count of writes in place, which autograd compares with that of its saved copies.
  int64_t version() const { return tensor_._version(); }
  // Takes back the count of writes that changed no value.
  void set_version(int64_t version);

 private:
  torch::Tensor tensor_;
  std::string name_;
  c10::intrusive_ptr<UnitStorage> storage_;
  std::shared_ptr<void> accumulator_;  // autograd holds it weakly
};

}  // namespace fsdp::interpose
