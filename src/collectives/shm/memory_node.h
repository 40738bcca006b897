// Machines with several processors have memory near each of them: Linux calls a processor with its memory a node.
#pragma once

#include <filesystem>

namespace fsdp::collectives::shm {

// The node whose processors are all that this process may run on; of a process that may run on several nodes, the one
// where the calling thread runs now. `nodes` is where the system describes them.
int memory_node(const std::filesystem::path& nodes = "/sys/devices/system/node");

}  // namespace fsdp::collectives::shm
