// LibTorch's default generator for the CPU, while numbers of a deferred construction have still to be drawn from it.
//
// The generator then has a unique state. It shows what the program did meanwhile: nothing, seed it again, or draw from
// it, which is an error. At most one recording waits for its numbers at a time, and it is kept until then. If all its
// tensors are gone, its numbers are not needed, and draws are no error.
#pragma once

#include <torch/types.h>

#include <memory>

namespace fsdp::deferred {

class Recording;

torch::Tensor generator_state();
void set_generator_state(const torch::Tensor& state);

// Puts the default generator back as it was.
class KeptGenerator {
 public:
  KeptGenerator() : state_(generator_state()) {}
  ~KeptGenerator() { set_generator_state(state_); }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;

 private:
  torch::Tensor state_;
};

// Before the recording gets an operator that draws: its numbers come after all that were drawn so far. Tells the
// recording of a state that the program has set. Throws Error where the program has drawn numbers meanwhile.
void expect_draws(const std::shared_ptr<Recording>& recording);

// Throws Error as above. Before tensors are made real, so that nothing has changed then.
void check_not_drawn();

// Draws what is waited for, if anything: the generator has the state then that an ordinary construction leaves. Throws
// Error as above.
void settle_draws();

// As though the recording that waits had drawn nothing.
void forget_draws();

}  // namespace fsdp::deferred
