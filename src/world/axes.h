// The axes of a grid of ranks (include/fsdp/mesh.h): their names and sizes, and what is wrong with them. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::world {

using Axes = std::vector<std::pair<std::string, int>>;

// "data 2", "tensor 4".
std::vector<std::string> texts_of(const Axes& axes);
// "data 2 x tensor 4".
std::string text_of(const Axes& axes);
// "data, tensor".
std::string names_of(const Axes& axes);

// Axes of `ranks` ranks that differ from these in one size; if there are none, in several.
std::vector<Axes> fitting_axes(const Axes& axes, int ranks);
// Throws Error unless the axes have different names and positive sizes, and their product is `ranks`.
void check_axes(const Axes& axes, int ranks);

// The number of the axis. Throws Error for a name that no axis has; `call` begins the message.
size_t find_axis(const Axes& axes, const std::string& name, const std::string& call);

}  // namespace fsdp::world
