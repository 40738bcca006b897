// c10d's Gloo in NCCL's place: a process group of tensors on the device, whose exchanges run on a stream of its own, as
// those of ProcessGroupNCCL do.
//
// An exchange begins behind all that is queued on the caller's current stream. Work::wait makes the current stream wait
// for it, and not the host. As kernels run at once here, it waits on the host for the bytes as well.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <string>

namespace fsdp::testing::device {

// `gloo` carries the bytes. `name` is the stream's, in logs.
c10::intrusive_ptr<c10d::Backend> make_process_group(c10::intrusive_ptr<c10d::Backend> gloo, const std::string& name);

}  // namespace fsdp::testing::device
