// Which tensors there are while a scope is open, as LibTorch's allocators tell a profiler.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>

namespace trainer {

// Counts tensors of this thread, and of autograd's threads that work for it. Ended on the thread that made it.
class LiveTensors {
 public:
  using Moment = std::map<int64_t, int64_t>;  // how many there are, by their bytes

  LiveTensors();
  ~LiveTensors();
  LiveTensors(const LiveTensors&) = delete;
  LiveTensors& operator=(const LiveTensors&) = delete;

  // Those made since, whenever one of them goes.
  const std::set<Moment>& moments() const;

 private:
  class Recorder;
  std::shared_ptr<Recorder> recorder_;
  c10::DebugInfoGuard guard_;
};

}  // namespace trainer
