// A group whose tensors lie on a device: c10d's process groups move them, and a group of the same ranks on the CPU
// moves what the ranks tell each other, and tensors on the CPU.
//
// One thread at a time. Destroying it ends the process groups, which waits for the peers to do the same unless the
// group failed.
#pragma once

#include <memory>

#include "collectives/device/context.h"
#include "collectives/group.h"

namespace fsdp::collectives::device {

// `host` is of the same ranks. Operations that are not over on the device after `timeout` are aborted.
std::unique_ptr<collectives::Group> make_group(std::unique_ptr<collectives::Group> host, Connect connect,
                                               torch::Device device,
                                               std::chrono::milliseconds timeout = std::chrono::minutes(10));

}  // namespace fsdp::collectives::device
