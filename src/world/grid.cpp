#include "world/grid.h"

#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace fsdp::world {

namespace {

// A rank's place in the order of rule 1.
struct Seat {
  int host = 0;  // by its lowest rank: 0 for the first
  int rank = 0;
  auto operator<=>(const Seat&) const = default;
};

// Ranks that are neighbours in the grid.
struct Block {
  std::optional<int> host;  // none: they are on several
  std::vector<Seat> seats;
};

std::vector<Block> single_ranks(const std::vector<HostOfRank>& hosts) {
  std::map<int64_t, int> numbers;
  std::vector<Seat> seats;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const int host = numbers.emplace(hosts[rank].number, static_cast<int>(numbers.size())).first->second;
    seats.push_back({host, static_cast<int>(rank)});
  }
  std::sort(seats.begin(), seats.end());
  std::vector<Block> blocks;
  for (const Seat& seat : seats) blocks.push_back({seat.host, {seat}});
  return blocks;
}

// Blocks of `size` each, one after the other. There is a multiple of `size`.
std::vector<Block> joined_in_order(const std::vector<Block>& blocks, size_t size, std::optional<int> host) {
  std::vector<Block> joined;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % size == 0) joined.push_back({host, {}});
    joined.back().seats.insert(joined.back().seats.end(), blocks[i].seats.begin(), blocks[i].seats.end());
  }
  return joined;
}

// Blocks of `size` each, as many as possible on one host. Blocks come in the order of their first ranks.
std::vector<Block> join_on_hosts(const std::vector<Block>& blocks, size_t size) {
  std::map<int, std::vector<Block>> on_host;
  for (const Block& block : blocks) {
    if (block.host) on_host[*block.host].push_back(block);
  }
  std::vector<Block> joined, left_over;
  for (auto& [host, own] : on_host) {
    const auto whole = own.begin() + static_cast<ptrdiff_t>(own.size() / size * size);
    std::ranges::move(joined_in_order({own.begin(), whole}, size, host), std::back_inserter(joined));
    left_over.insert(left_over.end(), whole, own.end());
  }
  std::ranges::copy_if(blocks, std::back_inserter(left_over), [](const Block& block) { return !block.host; });
  const auto by_first_rank = [](const Block& one, const Block& other) { return one.seats[0] < other.seats[0]; };
  std::sort(left_over.begin(), left_over.end(), by_first_rank);
  std::ranges::move(joined_in_order(left_over, size, std::nullopt), std::back_inserter(joined));
  std::sort(joined.begin(), joined.end(), by_first_rank);
  return joined;
}

}  // namespace

Grid::Grid(Axes axes, const std::vector<HostOfRank>& hosts) : axes_(std::move(axes)), positions_(hosts.size()) {
  std::vector<Block> blocks = single_ranks(hosts);
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) blocks = join_on_hosts(blocks, axis->second);
  for (const Seat& seat : blocks[0].seats) {
    positions_[seat.rank] = static_cast<int>(ranks_.size());
    ranks_.push_back(seat.rank);
  }
}

int Grid::stride(size_t axis) const {
  int stride = 1;
  for (size_t inner = axis + 1; inner < axes_.size(); ++inner) stride *= axes_[inner].second;
  return stride;
}

int Grid::coordinate(int position, size_t axis) const { return position / stride(axis) % axes_[axis].second; }

int Grid::group_of(int position, const std::vector<size_t>& along) const {
  for (const size_t axis : along) position -= coordinate(position, axis) * stride(axis);
  return position;
}

}  // namespace fsdp::world
