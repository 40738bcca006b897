#include "memory/side_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace fsdp::memory {

namespace {

c10::impl::VirtualGuardImpl streams_of(const torch::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

}  // namespace

std::optional<c10::Stream> current_stream(const torch::Device& device) {
  if (device.is_cpu()) return std::nullopt;
  return streams_of(device).getStream(device);
}

Moment Moment::of(const std::optional<c10::Stream>& stream) {
  Moment moment;
  if (!stream) return moment;
  moment.event_ = std::make_shared<c10::Event>(stream->device_type());
  moment.event_->record(*stream);
  return moment;
}

void Moment::hold(const std::optional<c10::Stream>& stream) const {
  if (event_ && stream) event_->block(*stream);
}

void Moment::wait_on_host() const {
  if (event_) event_->synchronize();
}

SideStream::SideStream(const torch::Device& device) {
  if (!device.is_cpu()) stream_ = streams_of(device).getStreamFromGlobalPool(device);
}

}  // namespace fsdp::memory
