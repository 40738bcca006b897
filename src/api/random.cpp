#include "fsdp/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace fsdp {

namespace {

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The next number of splitmix64.
uint64_t next(uint64_t& state) { return mixed(state += 0x9e3779b97f4a7c15); }

// The CPU's generator uses only 32 bits of a seed, so all its words are written instead.
void seed_cpu(uint64_t key) {
  at::mt19937_data_pod words{.seed_ = key, .left_ = 1, .seeded_ = true, .next_ = 0, .state_ = {}};
  for (uint64_t state = key; uint32_t & word : words.state_) word = static_cast<uint32_t>(next(state) >> 32);
  at::mt19937 engine;
  engine.set_data(words);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  at::check_generator<at::CPUGeneratorImpl>(generator)->set_engine(engine);
}

}  // namespace

void seed_micro_batch(uint64_t seed, int64_t step, int64_t micro_batch) {
  uint64_t key = seed;
  key = next(key) + static_cast<uint64_t>(step);
  key = next(key) + static_cast<uint64_t>(micro_batch);
  key = next(key);
  at::manual_seed(key);
  seed_cpu(key);
}

}  // namespace fsdp
