// The phase of a rank in its run, for those who watch it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace trainer {

// One thread tells, any thread reads.
class RunPhase {
 public:
  static constexpr int64_t kNoMicroBatch = -1;

  // `doing`, a literal, is in words that follow "step 7: ". A micro-batch is counted from 1 in the whole step.
  void enter(const char* doing, int64_t step, int64_t micro_batch = kNoMicroBatch) {
    doing_.store(doing);
    step_.store(step);
    micro_batch_.store(micro_batch);
    goes_on();
  }
  // It is at the same thing, and has come on with it.
  void goes_on() { changes_.fetch_add(1); }
  int64_t changes() const { return changes_.load(); }

  // "step 7, micro-batch 2: forward and backward"
  std::string text() const {
    const int64_t micro_batch = micro_batch_.load();
    std::string text = "step " + std::to_string(step_.load());
    if (micro_batch != kNoMicroBatch) text += ", micro-batch " + std::to_string(micro_batch);
    return text + ": " + doing_.load();
  }

 private:
  std::atomic<const char*> doing_{"begins"};
  std::atomic<int64_t> step_{0}, micro_batch_{kNoMicroBatch}, changes_{0};
};

}  // namespace trainer
