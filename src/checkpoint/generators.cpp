#include "checkpoint/generators.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "files/content_hash.h"

namespace fsdp::checkpoint {

namespace {

constexpr int kHexadecimal = 16;
constexpr size_t kSeedDigits = 16;  // of 64 bits

std::string names_and_sizes(const NamedTensors& states) {
  std::string text;
  for (const auto& [name, state] : states) text += fmt::format("{} {}\n", name, state.numel());
  return text;
}

// A collective.
void check_same(collectives::Group& group, const NamedTensors& own) {
  const std::string text = names_and_sizes(own);
  const std::string hash = files::hash_of(text.data(), text.size());
  torch::Tensor message = torch::empty({files::kHashDigits}, torch::kUInt8);
  std::memcpy(message.mutable_data_ptr(), hash.data(), hash.size());
  for (const torch::Tensor& theirs : group.all_gather(message)) {
    FSDP_CHECK(torch::equal(theirs, message),
               "Checkpoint::generators: found {} generators on this rank, and others on another one; expected the same "
               "names and devices on every rank",
               own.size());
  }
}

uint64_t seed_of(const torch::Tensor& state, int rank) {
  files::ContentHash hash;
  hash.add(state.const_data_ptr(), state.nbytes());
  hash.add(&rank, sizeof rank);
  const std::string digits = hash.hexadecimal();
  uint64_t seed = 0;
  std::from_chars(digits.data(), digits.data() + kSeedDigits, seed, kHexadecimal);
  return seed;
}

}  // namespace

NamedTensors states_of(const Generators& generators) {
  NamedTensors states;
  for (auto [name, generator] : generators) {
    FSDP_CHECK(generator.defined(), "Checkpoint::generators: '{}' is undefined", name);
    const std::lock_guard lock(generator.mutex());
    states.emplace_back(name, generator.get_state());
  }
  return states;
}

std::vector<Manifest::Generator> described(const NamedTensors& states) {
  std::vector<Manifest::Generator> all;
  for (const auto& [name, state] : states) all.push_back({name, state.numel()});
  return all;
}

NamedTensors gather_states(collectives::Group& group, const NamedTensors& own) {
  check_same(group, own);
  NamedTensors gathered;
  for (const auto& [name, state] : own) {
    const std::vector<torch::Tensor> all = group.all_gather(state);
    if (group.rank() == 0) gathered.emplace_back(kGenerator + name, torch::stack(all));
  }
  return gathered;
}

// LibTorch takes a state that would have it draw from behind its array: more numbers are left than there are from the
// next one on.
void check_state(const at::Generator& generator, const std::string& name, const torch::Tensor& state) try {
  at::Generator copy = generator.clone();
  const std::lock_guard lock(copy.mutex());
  copy.set_state(state);
  if (!copy.device().is_cpu()) return;
  const at::mt19937_data_pod engine = copy.get<at::CPUGeneratorImpl>()->engine().data();
  FSDP_CHECK(engine.left_ + static_cast<int64_t>(engine.next_) <= at::MERSENNE_STATE_N + 1, "{} left and {} next",
             engine.left_, engine.next_);
} catch (const std::exception& error) {
  FSDP_CHECK(false, "the state of {}{} is damaged: {}", kGenerator, name, error.what());
}

void set_state(at::Generator generator, const torch::Tensor& state, int rank, bool is_own) {
  const std::lock_guard lock(generator.mutex());
  is_own ? generator.set_state(state) : generator.set_current_seed(seed_of(state, rank));
}

}  // namespace fsdp::checkpoint
