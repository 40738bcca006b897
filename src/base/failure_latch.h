// Remembers the first failure of something that cannot go on after one: every later operation throws it again.
//
// One thread at a time.
#pragma once

#include <exception>

namespace fsdp {

class FailureLatch {
 public:
  bool failed() const { return failure_ != nullptr; }

  // Runs `operation`, unless an earlier one failed. `explain` makes what is thrown, and remembered, of what the
  // operation threw.
  template <typename Operation, typename Explain>
  auto run(Operation&& operation, Explain&& explain) {
    if (failure_) std::rethrow_exception(failure_);
    try {
      return operation();
    } catch (const std::exception&) {
      failure_ = explain(std::current_exception());
    }
    std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace fsdp
