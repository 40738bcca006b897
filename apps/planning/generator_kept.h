// Gives LibTorch's default generator its earlier state back at the end of a scope.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace trainer {

class GeneratorKept {
 public:
  GeneratorKept() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorKept() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace trainer
