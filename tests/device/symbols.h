// The names of a program's functions, from its file: the dynamic linker has those alone that are exported.
#pragma once

#include <cstdint>
#include <string>

namespace fsdp::testing::device {

// As the linker has it; empty where the file has no symbols. `offset` is from where the file is mapped.
std::string function_at(const std::string& file, uintptr_t offset);

}  // namespace fsdp::testing::device
