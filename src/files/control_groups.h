// The control groups of this process (https://docs.kernel.org/admin-guide/cgroup-v2.html), as folders of the kernel's.
//
// Free to call from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::files {

enum class GroupVersion { One, Two };

// The process's own group that `controller` ("memory", "cpu") limits, and its parents, as far as they are mounted; the
// outermost comes first. In a container the group may be named by a path that is not seen there; then it is what is
// mounted. None where there are no groups of this version. `root` is where proc and the control groups are mounted.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root, GroupVersion version,
                                                  const std::string& controller);

// The whole number that a file of the kernel's begins with. None where it says "max", and where there is no such file.
std::optional<size_t> kernel_number(const std::filesystem::path& path);

}  // namespace fsdp::files
