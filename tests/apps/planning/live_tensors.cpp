#include "apps/planning/live_tensors.h"

#include <c10/core/Allocator.h>

#include <unordered_map>
#include <utility>

namespace trainer {

class LiveTensors::Recorder : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* address, int64_t bytes, size_t, size_t, c10::Device) override {
    if (bytes > 0) {
      known_[address] = bytes;
      ++live_[bytes];
      grew_ = true;
      return;
    }
    const auto found = known_.find(address);
    if (found == known_.end()) return;
    if (std::exchange(grew_, false)) moments.insert(live_);
    if (--live_[found->second] == 0) live_.erase(found->second);
    known_.erase(found);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::set<Moment> moments;

 private:
  std::unordered_map<void*, int64_t> known_;
  Moment live_;
  bool grew_ = false;  // since the last moment
};

LiveTensors::LiveTensors()
    : recorder_(std::make_shared<Recorder>()), guard_(c10::DebugInfoKind::PROFILER_STATE, recorder_) {}

LiveTensors::~LiveTensors() = default;

const std::set<LiveTensors::Moment>& LiveTensors::moments() const { return recorder_->moments; }

}  // namespace trainer
