#include "fsdp/sampler.h"

#include "base/checked.h"
#include "base/permutation.h"
#include "files/json.h"

namespace fsdp {

namespace {

constexpr int64_t kMostSamples = Permutation::kMostCount;
constexpr const char* kTakenKey = "taken";

void check_sampler_options(int64_t samples, const SamplerOptions& options, int64_t micro_batches, int ranks) {
  FSDP_CHECK(samples >= 1 && samples <= kMostSamples, "Sampler: found {} samples, expected 1 to {}.", samples,
             kMostSamples);
  FSDP_CHECK(options.batch_size >= 1, "Sampler: found a batch_size of {}, expected 1 or more.", options.batch_size);
  FSDP_CHECK(
      micro_batches >= 1 && micro_batches % ranks == 0,
      "Sampler: found {} micro_batches per step on {} ranks, expected a multiple of the number of ranks. They are "
      "those of all ranks together.",
      micro_batches, ranks);
  const int64_t step = checked_mul(options.batch_size, micro_batches);
  FSDP_CHECK(step <= kMostSamples, "Sampler: found {} samples per step, expected at most {}.", step, kMostSamples);
  FSDP_CHECK(!options.drop_last || samples >= step,
             "Sampler: drop_last leaves no step of an epoch: found {} samples, and a step takes {}. Use smaller steps, "
             "or turn drop_last off.",
             samples, step);
}

}  // namespace

Sampler::Sampler(int64_t samples, const World& world, SamplerOptions options)
    : samples_(samples),
      batch_size_(options.batch_size),
      micro_batches_(options.micro_batches == 0 ? world.size() : options.micro_batches),
      seed_(options.seed),
      shuffle_(options.shuffle),
      drop_last_(options.drop_last),
      rank_(world.rank()),
      ranks_(world.size()) {
  check_sampler_options(samples, options, micro_batches_, world.size());
}

int64_t Sampler::samples_per_step() const { return batch_size_ * micro_batches_; }

int64_t Sampler::samples_per_epoch() const {
  return drop_last_ ? samples_ / samples_per_step() * samples_per_step() : samples_;
}

int64_t Sampler::rounds() const { return micro_batches_ / ranks_; }

int64_t Sampler::micro_batch() const { return (taken_ % samples_per_step() / batch_size_ + rank_) % micro_batches_; }

int64_t Sampler::epoch() const { return taken_ / samples_per_epoch(); }

int64_t Sampler::steps_per_epoch() const {
  return samples_per_epoch() / samples_per_step() + (samples_per_epoch() % samples_per_step() != 0 ? 1 : 0);
}

int64_t Sampler::sample_at(int64_t place) const {
  const int64_t epoch = place / samples_per_epoch(), within = place % samples_per_epoch();
  return shuffle_ ? Permutation(samples_, seed_, static_cast<uint64_t>(epoch)).at(within) : within;
}

std::vector<int64_t> Sampler::next() {
  const int64_t first = checked_add(taken_, rank_ * batch_size_);
  taken_ = checked_add(taken_, ranks_ * batch_size_);
  std::vector<int64_t> numbers(static_cast<size_t>(batch_size_));
  for (int64_t i = 0; i < batch_size_; ++i) numbers[static_cast<size_t>(i)] = sample_at(first + i);
  return numbers;
}

std::string Sampler::state() const {
  return files::OrderedJson{
      {"samples", samples_},
      {"seed", seed_},
      {"shuffle", shuffle_},
      {"drop_last", drop_last_},
      {"samples_per_step", drop_last_ ? samples_per_step() : 0},  // 0: it does not decide the order
      {kTakenKey, taken_}}
      .dump();
}

void Sampler::load_state(const std::string& state) {
  const std::string name = "Sampler: the state";
  const files::Json saved = files::parse_json(state, name);
  const int64_t taken = files::whole_number(saved, kTakenKey, name, 0, kMostSamples);
  const files::OrderedJson own = files::parse_ordered_json(this->state(), name);
  for (const auto& [key, value] : own.items()) {
    const std::string found = saved.contains(key) ? saved[key].dump() : "nothing";
    FSDP_CHECK(key == kTakenKey || found == value.dump(),
               "Sampler: the state was saved with {} = {}, and this sampler has {}. Make the sampler with the data and "
               "the options of the run that it resumes.",
               key, found, value.dump());
  }
  taken_ = taken;
}

}  // namespace fsdp
