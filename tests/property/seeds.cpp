#include "property/seeds.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#include "support/drawn.h"

namespace fsdp::property {

namespace {

std::vector<uint64_t> range(uint64_t first, uint64_t last) {
  std::vector<uint64_t> seeds(last < first ? 0 : last - first + 1);
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

// "7", or "100-499".
std::vector<uint64_t> named_seeds(const char* text) {
  char* end = nullptr;
  const uint64_t first = std::strtoull(text, &end, 10);
  return range(first, *end == '-' ? std::strtoull(end + 1, nullptr, 10) : first);
}

}  // namespace

std::vector<uint64_t> tried_seeds(uint64_t usual, const std::vector<uint64_t>& quick) {
  using testing::Tier;
  if (const char* wanted = std::getenv("FSDP_PROPERTY_SEED")) return named_seeds(wanted);
  if (testing::tier() == Tier::Quick) return quick;
  std::vector<uint64_t> seeds = range(0, usual - 1);
  if (testing::tier() == Tier::All) return seeds;
  std::erase_if(seeds, [&](uint64_t seed) {
    return seed % 8 != testing::seed() % 8 && std::ranges::find(quick, seed) == quick.end();
  });
  return seeds;
}

}  // namespace fsdp::property
