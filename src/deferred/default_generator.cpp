#include "deferred/default_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/fnv1a.h"
#include "deferred/recording.h"

namespace fsdp::deferred {

namespace {

// An unlikely seed that follows from the state.
uint64_t mark_of(const torch::Tensor& state) {
  Fnv1a hash;
  for (const uint8_t byte : std::span(state.const_data_ptr<uint8_t>(), state.numel())) hash.add(uint64_t{byte});
  return hash.value();
}

struct Waiting {
  at::Generator generator;  // kept, so that no other one has its address
  std::shared_ptr<Recording> recording;
  torch::Tensor before;  // the generator's state before the first of its numbers
  torch::Tensor mark;    // and since
  uint64_t seed;
};

// This belongs to the default generator. A program may give each of its threads one of its own.
std::optional<Waiting>& waiting() {
  struct All {
    std::mutex mutex;
    std::map<const c10::GeneratorImpl*, std::optional<Waiting>> by_generator;
  };
  static auto& all = *new All;  // never destroyed: LibTorch may be gone by then
  const std::lock_guard lock(all.mutex);
  return all.by_generator[at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl()];
}

void wait_for(std::shared_ptr<Recording> recording) {
  const torch::Tensor before = generator_state();
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  Waiting next{
      .generator = generator, .recording = std::move(recording), .before = before, .mark = {}, .seed = mark_of(before)};
  {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(next.seed);
  }
  next.mark = generator_state();
  waiting() = std::move(next);
}

// True if the generator is as wait_for left it; otherwise it was seeded, or drawn from after all tensors of the
// recording were dropped. Throws Error where it was drawn from and they are not.
bool is_untouched() {
  const torch::Tensor state = generator_state();
  if (torch::equal(state, waiting()->mark)) return true;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  FSDP_CHECK(generator.current_seed() != waiting()->seed || waiting()->recording->held_tensors().empty(),
             "deferred_init: random numbers were drawn from the default generator before a deferred module had drawn "
             "its own. An ordinary construction draws first, so these numbers would differ. Draw after fsdp::shard or "
             "fsdp::materialize, or seed the generator again after deferred_init (torch::manual_seed).");
  return false;
}

}  // namespace

torch::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

void expect_draws(const std::shared_ptr<Recording>& recording) {
  if (waiting() && waiting()->recording == recording && is_untouched()) return;
  if (waiting() && waiting()->recording != recording) settle_draws();
  recording->seed(generator_state());
  wait_for(recording);
}

void check_not_drawn() {
  if (waiting()) is_untouched();
}

void settle_draws() {
  if (!waiting()) return;
  const bool untouched = is_untouched();
  const Waiting done = std::exchange(waiting(), std::nullopt).value();
  if (untouched) set_generator_state(done.recording->state_after());
}

void forget_draws() {
  if (!waiting()) return;
  const Waiting done = std::exchange(waiting(), std::nullopt).value();
  if (torch::equal(generator_state(), done.mark)) set_generator_state(done.before);
}

}  // namespace fsdp::deferred
