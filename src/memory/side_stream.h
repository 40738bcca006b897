// Copies beside the computation: a stream of their own on a device, and the moments by which streams wait for each
// other.
//
// On the CPU there are no streams: work is done at once, and every moment is over. Any thread, one at a time.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <torch/types.h>

#include <memory>
#include <optional>

namespace fsdp::memory {

// The stream that this thread computes on; none on the CPU.
std::optional<c10::Stream> current_stream(const torch::Device& device);

// A point in a stream: the end of all work that was queued before it. A value.
class Moment {
 public:
  Moment() = default;  // over
  // The end of all work that the stream has now.
  static Moment of(const std::optional<c10::Stream>& stream);

  bool is_over() const { return !event_ || event_->query(); }
  // Later work of `stream` begins after this moment. The host goes on.
  void hold(const std::optional<c10::Stream>& stream) const;
  void wait_on_host() const;

 private:
  std::shared_ptr<c10::Event> event_;
};

class SideStream {
 public:
  explicit SideStream(const torch::Device& device);

  // Queues `work` behind `before` and all earlier work of this stream; returns its end.
  template <typename Work>
  Moment run(const Moment& before, Work work) const {
    before.hold(stream_);
    const c10::OptionalStreamGuard here(stream_);
    work();
    return Moment::of(stream_);
  }

 private:
  std::optional<c10::Stream> stream_;
};

// For copies between a device and the host, one stream per direction.
struct CopyStreams {
  explicit CopyStreams(const torch::Device& device) : to_device(device), to_host(device) {}
  SideStream to_device, to_host;
};

}  // namespace fsdp::memory
