// The exchange between ranks that make a grid: their hosts, and whether they were given the same axes.
#pragma once

#include <string>
#include <vector>

#include "world/grid.h"
#include "world/state.h"

namespace fsdp::world {

// Every rank's host, by rank. `axes` has a text for each axis. Throws Error on every rank if they differ, and names the
// first rank that differs from rank 0. `call` begins the message. A collective.
std::vector<HostOfRank> exchange_axes(State& state, const std::string& call, const std::vector<std::string>& axes);

}  // namespace fsdp::world
