// A case of the property test: how a random model is sharded and trained. The seed says everything: strategy, ranks,
// dtype and backend go through all that there are, model and policy are drawn.
#pragma once

#include <fsdp/options.h>

#include <optional>

#include "property/random_model.h"
#include "support/oracle.h"

namespace fsdp::property {

struct RandomCase {
  uint64_t seed = 0;
  testing_models::Training training = {};
  Options options = {};
  std::optional<Offload> offload = std::nullopt;  // to a folder that is still to be named
  bool offloads_activations = false;              // of any size, to such a folder
  bool deferred = false;                          // its construction
  std::string words = {};
  std::optional<ActivationCheckpointOptions> recomputed = std::nullopt;  // of each block on ranks, not in the oracle

  // Rank 0 has the weights that count; the others begin with their own.
  RandomModel make(int rank) const;
  // The same, as ranks train it.
  RandomModel make_on_ranks(int rank) const;
  // The model of rank 0, in the dtypes in which the oracle runs it.
  RandomModel make_unsharded() const;
  // Whether parameters are converted and buffers are not.
  bool keeps_buffers() const;
};

// Choices not left to chance: each of these is tried in as many cases as any other.
struct Cell {
  int ranks = 1;
  std::string backend;
  Strategy strategy = Strategy::FullShard;
  std::string strategy_name;
  int group_size = 0;  // of the hybrid strategies
  bool bf16 = false;   // or fp32
};
const Cell& cell_of(uint64_t seed);
// Shared memory comes twice: its gathers copy or not.
inline constexpr const char* kShmByCopies = "shm by copies";
// The backend that "auto" takes for ranks on several hosts: two of two, or three of one.
inline constexpr const char* kSeveralHosts = "several hosts";
// A group whose tensors go through the host's memory, with the CPU in the device's place.
inline constexpr const char* kStaged = "staged";
// The group of Options::cpu_offload, with the CPU in the device's place.
inline constexpr const char* kHostShards = "host shards";
std::vector<std::string> backends_of(int ranks);

// As many seeds from 0 as there are cells: each cell has one of them.
uint64_t number_of_cases();
// Seeds of a few of these: each two of a number of ranks, a backend, a strategy and a dtype that can meet do so in one
// of them. `draw` says which cells they are of.
std::vector<uint64_t> pairwise_seeds(uint64_t draw);
RandomCase make_random_case(uint64_t seed);

}  // namespace fsdp::property
