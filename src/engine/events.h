// Receives LibTorch's events: operators on a model's parameters and pieces, and autograd's gradients. Each goes to the
// step machine, then to the schedule, whose actions are performed.
//
// Calls come from the threads that run operators and backward passes; each takes the model's lock.
#pragma once

#include <optional>
#include <span>

#include "engine/parts.h"
#include "interpose/listener.h"

namespace fsdp::engine {

class Events final : public interpose::Listener {
 public:
  explicit Events(Parts& parts) : parts_(parts) { parts_.link->listener = this; }
  ~Events() override {
    parts_.link->listener = nullptr;
    interpose::ActivationWatch::none_in_use();
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) override;
  void operator_ends(std::span<const int> units) noexcept override;
  void operator_wrote(const char* operation) override;
  void parameter_viewed(int unit) override;
  void gradient_read() override;
  void pieces_used(const interpose::PieceUse& use, const char* operation) override;
  torch::Tensor gradient_destination(int unit, int parameter) override;
  void gradient_arrives(int unit, int parameter, torch::Tensor gradient) override;
  void backward_ends(int task) override;

  // True if the next or the running backward is in a scope of step_in_backward.
  bool steps_in_backward() const;

 private:
  schedule::Mode mode();  // of what this thread runs now
  void begin_write(std::span<const int> units);
  void end_sums(const interpose::PieceUse& use, const char* operation);

  Parts& parts_;
};

}  // namespace fsdp::engine
