#include "collectives/device/context.h"

#include <utility>

#include "base/error.h"

namespace fsdp::collectives::device {

DeviceContext::DeviceContext(std::shared_ptr<Group> host, Connect connect, torch::Device device)
    : host_(std::move(host)), connect_(std::move(connect)), device_(device) {}

DeviceContext::~DeviceContext() {
  const bool in_order = !latch_.failed() && std::uncaught_exceptions() == 0;
  for (auto& [name, channel] : channels_) {
    try {
      in_order ? channel->shutdown() : channel->abort();
    } catch (const std::exception&) {
      // Whoever still needs it will be told.
    }
  }
}

const c10::intrusive_ptr<c10d::Backend>& DeviceContext::channel(const std::string& name, int rank, int size) {
  c10::intrusive_ptr<c10d::Backend>& channel = channels_[name];
  if (!channel) channel = connect_(name, rank, size);
  return channel;
}

Channels DeviceContext::channels(const layout::UnitLayout& layout) {
  const int rank = host_->rank(), shards = layout.shards(), groups = layout.ranks() / shards;
  const int shard = layout.shard_index(rank), group = layout.group_index(rank);
  Channels channels;
  if (shards > 1)
    channels.gather = groups == 1 ? everyone() : channel(fmt::format("gather/{}/{}", shards, group), shard, shards);
  channels.reduce = channel(fmt::format("reduce/{}", shards), shard * groups + group, layout.ranks());
  if (groups > 1) channels.replicas = channel(fmt::format("replicas/{}/{}", shards, shard), group, groups);
  return channels;
}

// Work that the device is in the midst of would wait for peers that may never come.
std::exception_ptr DeviceContext::explain(const std::string& start, const std::exception_ptr& failure) {
  for (auto& [name, channel] : channels_) {
    try {
      channel->abort();
    } catch (const std::exception&) {
      // It is the first failure that counts.
    }
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error&) {
    return failure;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return std::make_exception_ptr(Error(fmt::format("{}: {}", start, text.substr(0, text.find('\n')))));
  }
}

}  // namespace fsdp::collectives::device
