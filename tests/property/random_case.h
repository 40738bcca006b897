// A case of the property test: a random model and how it is sharded and trained. The seed says everything.
#pragma once

#include <fsdp/options.h>

#include "property/random_model.h"
#include "support/oracle.h"

namespace fsdp::property {

struct RandomCase {
  uint64_t seed = 0;
  testing_models::Training training = {};
  Options options = {};
  std::string words = {};

  // Rank 0 has the weights that count; the others begin with their own.
  RandomModel make(int rank) const { return make_random_model(seed, seed + 1000 * static_cast<uint64_t>(rank)); }
};

inline int ranks_of(uint64_t seed) { return 1 + static_cast<int>(seed % 4); }
RandomCase make_random_case(uint64_t seed);

}  // namespace fsdp::property
