// The files of report/assets, which the build puts into the program (cmake/EmbedFiles.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace trainer {

// The file's content. There is none of another name: throws std::out_of_range.
std::string_view asset(std::string_view name);
// The names of all.
std::vector<std::string_view> asset();

}  // namespace trainer
