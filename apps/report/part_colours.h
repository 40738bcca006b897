// The parts of a rank's memory, which have the same colours on every page.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace trainer {

// From the ground of a picture up: first parts that stay, last parts that come and go. The place of a part in this list
// is its colour.
inline constexpr std::array<const char*, 9> kMemoryParts = {
    "program and LibTorch", "copy for saves", "parameters",  "gradients",    "optimizer",
    "full parameters",      "full gradients", "activations", "other tensors"};

// Parts of other names share the last colour, that of the rest.
size_t part_colour(std::string_view part);

}  // namespace trainer
