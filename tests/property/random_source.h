// Choices drawn from a seed: the same on every machine, unlike those of the standard library's distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace fsdp::property {

class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : engine_(seed) {}

  int64_t between(int64_t least, int64_t most) {  // both included
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool one_in(int64_t count) { return between(1, count) == 1; }
  template <typename Value>
  const Value& among(const std::vector<Value>& values) {
    return values[static_cast<size_t>(between(0, static_cast<int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace fsdp::property
