// Draws grids of ranks as tables: a line for each group of the last axis. Pure.
#pragma once

#include <string>
#include <vector>

#include "world/axes.h"
#include "world/grid.h"

namespace fsdp::world {

// Axes of another number of ranks than the world has. A place without a rank shows "-". Large grids are cut off.
std::string draw_as_asked(const Axes& axes, int ranks);

// The axes, the grid with each rank at its place, and the hosts of each line. `hosts` by rank; so are `names`, the
// numbers that the drawing has for the ranks. If two hosts have one name, the second is "NAME#2".
std::string draw_grid(const Grid& grid, const std::vector<HostOfRank>& hosts, const std::vector<int>& names);

}  // namespace fsdp::world
