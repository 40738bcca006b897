// SLURM's compressed lists, expanded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp::world {

// "gpu[001-003,7],login" is gpu001, gpu002, gpu003, gpu7, login. Throws Error for a list that cannot be read.
std::vector<std::string> expand_host_list(std::string_view list);

// "2(x3),1" is 2, 2, 2, 1: tasks of each node. Throws Error for a list that cannot be read.
std::vector<int> expand_counts(std::string_view list);

}  // namespace fsdp::world
