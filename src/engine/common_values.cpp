#include "engine/common_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "engine/value_hash.h"

namespace fsdp::engine {

namespace {

int64_t hash_at(const torch::Tensor& hashes, int64_t column) { return hashes.const_data_ptr<int64_t>()[column]; }

std::string ranks_in_words(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// The ranks whose bits most ranks do not have; all if none are in the majority.
std::string difference_in_words(const std::map<int64_t, std::vector<int>>& by_hash, size_t ranks) {
  const auto most = std::ranges::max_element(by_hash, {}, [](const auto& one) { return one.second.size(); });
  std::vector<int> equal = most->second, others;
  const bool is_majority = 2 * equal.size() > ranks;
  for (const auto& [hash, holders] : by_hash) {
    if (hash != most->first || !is_majority) others.insert(others.end(), holders.begin(), holders.end());
  }
  std::ranges::sort(others);
  if (!is_majority) return fmt::format("{} have different bits, and no majority is equal", ranks_in_words(others));
  return fmt::format("the bits of {} differ from those of {}", ranks_in_words(others), ranks_in_words(equal));
}

}  // namespace

std::vector<torch::Tensor> CommonValues::exchange(const Units& units, const ModuleBuffers& buffers,
                                                  collectives::Group& group) const {
  std::vector<int64_t> hashes;
  const int place = group.rank() % shards_;
  for (const auto& unit : units) {
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      const layout::Range piece = unit->layout.piece_of(i, place);
      hashes.push_back(hash_of_values(unit->shard.slice(0, piece.begin, piece.end)));
    }
  }
  for (size_t i = 0; i < buffers.named().size(); ++i) {
    const bool compared = buffers_were_sent_ && !buffers.is_written(i);
    hashes.push_back(compared);
    hashes.push_back(compared ? hash_of_values(buffers.named()[i].second) : 0);
  }
  return group.all_gather(torch::tensor(hashes, torch::kInt64), "compares values that ranks hold in common");
}

void CommonValues::check(const std::vector<torch::Tensor>& hashes, const Units& units,
                         const ModuleBuffers& buffers) const {
  int64_t column = 0;
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters)
      check_one("the parameter " + parameter.name(), column++, /*of_shards=*/true, hashes);
  }
  for (const auto& [name, buffer] : buffers.named()) {
    const bool compared = std::ranges::all_of(hashes, [&](const auto& one) { return hash_at(one, column) != 0; });
    if (compared) check_one("the buffer " + name, column + 1, /*of_shards=*/false, hashes);
    column += 2;
  }
}

std::vector<std::vector<int>> CommonValues::holders(bool of_shards, int ranks) const {
  std::vector<std::vector<int>> groups(of_shards ? shards_ : 1);
  for (int rank = 0; rank < ranks; ++rank) groups[rank % groups.size()].push_back(rank);
  return groups;
}

void CommonValues::check_one(const std::string& what, int64_t column, bool of_shards,
                             const std::vector<torch::Tensor>& hashes) const {
  for (const std::vector<int>& group : holders(of_shards, static_cast<int>(hashes.size()))) {
    std::map<int64_t, std::vector<int>> by_hash;
    for (int rank : group) by_hash[hash_at(hashes[rank], column)].push_back(rank);
    FSDP_CHECK(by_hash.size() == 1,
               "step {}: {} is not equal on ranks that hold it in common: {}. Either the memory of a rank has a fault, "
               "or the program writes other values on some ranks. Load the last checkpoint from before the fault, and "
               "test the memory of the host (options.check_common_every = {}).",
               steps_, what, difference_in_words(by_hash, group.size()), every_);
  }
}

}  // namespace fsdp::engine
