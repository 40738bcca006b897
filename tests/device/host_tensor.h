// Tensors of the CPU over the bytes of the device's, for kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device/device.h"

namespace fsdp::testing::device {

// Those of one call: tensors that share a storage share it here as well.
class HostTensors {
 public:
  // `tensor` itself, where it is neither on a device nor in pinned memory. `written`: as an operator that writes it.
  at::Tensor of(const at::Tensor& tensor, bool written);
  // A result of a kernel, on `device`: the tensor that the kernel got, a view of it, or a new one.
  at::Tensor on_device(const at::Tensor& result, c10::Device device);
  // Where the kernel has given a tensor another size or other bytes, the device's gets them too.
  void take_over_changes();

  // Of the tensors that were asked for, and of new results.
  std::vector<Range> reads, writes;

 private:
  struct Pair {
    at::Tensor device, host;
    const void* bytes;  // of the host's storage, before the kernel
    bool written;
  };

  c10::Storage storage_of(const at::Tensor& tensor, bool written);
  at::Tensor fresh(const at::Tensor& result, c10::Device device);

  std::vector<Pair> pairs_;
};

// The bytes of its elements; those between them are left out where whole rows are apart.
void add_ranges(const at::Tensor& tensor, std::vector<Range>& ranges);
bool is_on_device(const at::Tensor& tensor);

}  // namespace fsdp::testing::device
