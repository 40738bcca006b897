// A process that has used the device cannot go on using it after a fork, as with CUDA.
#pragma once

namespace fsdp::testing::device {

// This process uses the device from now on. Ends a process whose parent has done so before the fork.
void note_use();

}  // namespace fsdp::testing::device
