#include "deferred/default_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "deferred/recording.h"

namespace fsdp::deferred {

namespace {

constexpr uint64_t kFirstMark = 0x6673'6470'6465'6672;  // a seed that nobody chooses

struct Waiting {
  std::shared_ptr<Recording> recording;
  torch::Tensor before;  // the generator's state before the first of its numbers
  torch::Tensor mark;    // and since
  uint64_t seed;
  bool is_dropped = false;  // nobody wants its values, and the mark is the state before
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // alive when the process ends, too
};

// There is one default generator, and this belongs to it.
std::optional<Waiting>& waiting() {
  static auto& waiting = *new std::optional<Waiting>;  // never destroyed: LibTorch may be gone by then
  return waiting;
}

void wait_for(std::shared_ptr<Recording> recording) {
  static uint64_t marks = 0;
  Waiting next{
      .recording = std::move(recording), .before = generator_state(), .mark = {}, .seed = kFirstMark + marks++};
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(next.seed);
  }
  next.mark = generator_state();
  waiting() = std::move(next);
}

// Whether the generator is as wait_for, or values_dropped, left it; otherwise it was seeded. Throws Error where it was
// drawn from while somebody wanted the values.
bool is_untouched() {
  const torch::Tensor state = generator_state();
  if (torch::equal(state, waiting()->mark)) return true;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  FSDP_CHECK(waiting()->is_dropped || generator.current_seed() != waiting()->seed,
             "deferred_init: random numbers were drawn from the default generator after a deferred construction whose "
             "own numbers have still to be drawn: an ordinary construction would have drawn first, and these numbers "
             "are not what they would be. Draw after fsdp::shard or fsdp::materialize, or seed the generator again "
             "after deferred_init (torch::manual_seed).");
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

void values_dropped(const std::shared_ptr<Recording>& recording) noexcept {
  if (!waiting() || waiting()->recording != recording || waiting()->is_dropped) return;
  Waiting& dropped = *waiting();
  dropped.is_dropped = true;
  const std::lock_guard lock(dropped.generator.mutex());
  // By bytes: when the process ends, there may be no operators any more.
  const torch::Tensor state = dropped.generator.get_state();
  const bool untouched = state.nbytes() == dropped.mark.nbytes() &&
                         std::memcmp(state.const_data_ptr(), dropped.mark.const_data_ptr(), state.nbytes()) == 0;
  if (!untouched) return;
  dropped.generator.set_state(dropped.before);
  dropped.mark = dropped.before;
}

void forget_draws() {
  if (!waiting()) return;
  const Waiting done = std::exchange(waiting(), std::nullopt).value();
  if (torch::equal(generator_state(), done.mark)) set_generator_state(done.before);
}

}  // namespace fsdp::deferred
