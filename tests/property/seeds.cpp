#include "property/seeds.h"

#include <cstdlib>
#include <numeric>

namespace fsdp::property {

std::vector<uint64_t> wanted_seeds(uint64_t usual) {
  uint64_t first = 0, last = usual - 1;
  if (const char* wanted = std::getenv("FSDP_PROPERTY_SEED")) {
    char* end = nullptr;
    first = last = std::strtoull(wanted, &end, 10);
    if (*end == '-') last = std::strtoull(end + 1, nullptr, 10);
  }
  std::vector<uint64_t> seeds(last < first ? 0 : last - first + 1);
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

}  // namespace fsdp::property
