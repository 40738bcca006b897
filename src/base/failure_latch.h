// Remembers the first failure of something that cannot go on after one: every later operation throws it again.
//
// One thread at a time.
#pragma once

#include <exception>
#include <utility>

namespace fsdp {

class FailureLatch {
 public:
  bool failed() const { return failure_ != nullptr; }
  // Throws the first failure, if there was one.
  void check() const {
    if (failure_) [[unlikely]]
      std::rethrow_exception(failure_);
  }

  // Runs `operation`, unless an earlier one failed. `explain` makes what is thrown, and remembered, of what the
  // operation threw.
  template <typename Operation, typename Explain>
  auto run(Operation&& operation, Explain&& explain) {
    check();
    try {
      return operation();
    } catch (const std::exception&) {
      failure_ = explain(std::current_exception());
    }
    std::rethrow_exception(failure_);
  }
  // As above; the failure is thrown again as it was.
  template <typename Operation>
  auto run(Operation&& operation) {
    return run(std::forward<Operation>(operation), [](std::exception_ptr failure) { return failure; });
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace fsdp
