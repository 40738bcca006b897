#include "fsdp/mesh.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rank_names.h"
#include "world/axes.h"
#include "world/axes_exchange.h"
#include "world/grid.h"
#include "world/grid_text.h"
#include "world/state.h"

namespace fsdp {

namespace world {

// Shared by the copies of a Mesh. Immutable; its worlds are handles.
struct MeshState {
  Grid grid;
  std::vector<HostOfRank> hosts;  // by rank of the world that the mesh was made of; so is the next
  std::vector<int> names;         // of the ranks in messages
  World all;                      // in the order of the grid: a rank's number there is its position
  std::vector<World> along;       // by axis
};

}  // namespace world

namespace {

using world::Grid;
using world::State;

constexpr const char* kOver = "Mesh::over";

// The ranks that differ from this one along these axes alone. A collective of `all`, whose order is the grid's.
World split_along(const World& all, const Grid& grid, const std::vector<size_t>& axes) {
  std::vector<std::string> names;
  for (const size_t axis : axes) names.push_back(grid.axes()[axis].first);
  return World(
      all.state()->split(grid.group_of(all.rank(), axes), /*key=*/0, fmt::format("along {}", fmt::join(names, " x "))));
}

// "data 1, tensor 1".
std::string place_text(const Grid& grid, int position) {
  std::vector<std::string> texts;
  for (size_t axis = 0; axis < grid.axes().size(); ++axis)
    texts.push_back(fmt::format("{} {}", grid.axes()[axis].first, grid.coordinate(position, axis)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void name_ranks(const Grid& grid, const std::vector<int>& world_ranks) {
  std::vector<int> ranks;
  std::vector<std::string> places;
  for (const int rank : grid.ranks()) {
    ranks.push_back(world_ranks[static_cast<size_t>(rank)]);
    places.push_back(place_text(grid, grid.position_of(rank)));
  }
  set_places(ranks, places);
}

std::shared_ptr<const world::MeshState> make_mesh(State& state, world::Axes axes) {
  const State::Call call(state, "calls Mesh");
  std::vector<world::HostOfRank> hosts = world::exchange_axes(state, "Mesh", world::texts_of(axes));
  world::check_axes(axes, state.identity().size);
  Grid grid(std::move(axes), hosts);
  name_ranks(grid, state.world_ranks());
  World all(state.split(/*color=*/0, grid.position_of(state.identity().rank), "in the mesh"));
  std::vector<World> along;
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) along.push_back(split_along(all, grid, {axis}));
  return std::make_shared<const world::MeshState>(
      world::MeshState{std::move(grid), std::move(hosts), state.world_ranks(), std::move(all), std::move(along)});
}

std::vector<size_t> find_axes(const world::Axes& axes, const std::vector<std::string>& names) {
  FSDP_CHECK(!names.empty(), "{}: found no axes, expected at least one of: {}.", kOver, world::names_of(axes));
  std::vector<size_t> found;
  for (const std::string& name : names) {
    found.push_back(world::find_axis(axes, name, kOver));
    FSDP_CHECK(std::count(found.begin(), found.end(), found.back()) == 1,
               "{}: found the axis \"{}\" twice, expected each once.", kOver, name);
  }
  return found;
}

}  // namespace

Mesh::Mesh(const World& world, std::vector<std::pair<std::string, int>> axes)
    : state_(make_mesh(*world.state(), std::move(axes))) {}

const std::vector<std::pair<std::string, int>>& Mesh::axes() const { return state_->grid.axes(); }

int Mesh::size(const std::string& axis) const { return axes()[world::find_axis(axes(), axis, "Mesh::size")].second; }

int Mesh::coordinate(const std::string& axis) const {
  return state_->grid.coordinate(state_->all.rank(), world::find_axis(axes(), axis, "Mesh::coordinate"));
}

World Mesh::operator[](const std::string& axis) const {
  return state_->along[world::find_axis(axes(), axis, "Mesh::operator[]")];
}

World Mesh::over(const std::vector<std::string>& axes) const {
  State& all = *state_->all.state();
  const State::Call call(all, "calls Mesh::over");
  world::exchange_axes(all, kOver, axes);
  return split_along(state_->all, state_->grid, find_axes(this->axes(), axes));
}

World Mesh::world() const { return state_->all; }

std::string Mesh::to_string() const { return world::draw_grid(state_->grid, state_->hosts, state_->names); }

}  // namespace fsdp
