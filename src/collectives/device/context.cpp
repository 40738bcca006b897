#include "collectives/device/context.h"

#include <thread>
#include <utility>

#include "base/error.h"
#include "base/pace.h"
#include "base/patience.h"
#include "collectives/device/unit.h"

namespace fsdp::collectives::device {

namespace {

constexpr std::chrono::milliseconds kStalled{1000}, kStalledAgain{20}, kBetweenLooks{1};

}  // namespace

DeviceContext::DeviceContext(std::shared_ptr<Group> host, Connect connect, torch::Device device,
                             std::chrono::milliseconds timeout)
    : host_(std::move(host)), connect_(std::move(connect)), device_(device), watch_(timeout, [this] { abort(); }) {}

DeviceContext::~DeviceContext() {
  const bool in_order = !latch_.failed() && std::uncaught_exceptions() == 0;
  for (auto& [name, channel] : channels_) {
    try {
      in_order ? channel->shutdown() : channel->abort();
    } catch (const std::exception&) {
      // Its later users get the error.
    }
  }
}

const c10::intrusive_ptr<c10d::Backend>& DeviceContext::channel(const std::string& name, int rank, int size) {
  const auto known = channels_.find(name);
  if (known != channels_.end()) return known->second;
  auto connected = connect_(name, rank, size);
  const std::lock_guard lock(channels_mutex_);
  return channels_[name] = std::move(connected);
}

// Also from the thread that watches.
void DeviceContext::abort() {
  const std::lock_guard lock(channels_mutex_);
  for (auto& [name, channel] : channels_) {
    try {
      channel->abort();
    } catch (const std::exception&) {
      // It is the first failure that counts.
    }
  }
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

void DeviceContext::add(int id, DeviceUnit& unit) {
  units_[id] = &unit;
  order_.add(id);
}

void DeviceContext::send(const std::vector<int>& units) {
  for (int id : units) units_.at(id)->send();
}

void DeviceContext::begin_reduction(int id) { send(order_.begin(id)); }

bool DeviceContext::held_back(int id) { return order_.held_back(id); }

Begun DeviceContext::wait_sent(int id) {
  for (int before : order_.sent_in_order()) {
    if (units_.at(before)->wait_begun_everywhere() != Begun::Yes) return Begun::PeerStalls;
    if (before == id) break;
  }
  return Begun::Yes;
}

void DeviceContext::flush(int id) {
  if (order_.held_back(id)) send(order_.flush(id));
}

// All ranks have begun the same units.
void DeviceContext::learn_order(const std::vector<int>& begun) {
  torch::Tensor units = torch::tensor(begun, torch::kInt32);
  host_->broadcast_(units, 0);
  const int* first = units.const_data_ptr<int>();
  order_.expect({first, first + units.numel()});
}

// The flags of the gradients of units that were reduced without flags, as on every rank.
std::vector<int> DeviceContext::correct_flags() {
  std::vector<DeviceUnit*> units;
  std::vector<uint8_t> flags;
  for (const auto& [id, unit] : units_) {
    if (!unit->lacks_flags()) continue;
    units.push_back(unit);
    flags.insert(flags.end(), unit->present().begin(), unit->present().end());
  }
  if (units.empty()) return {};
  const torch::Tensor own = torch::tensor(flags, torch::kUInt8);
  const std::vector<torch::Tensor> all = host_->all_gather(own, "says which gradients it had");
  std::vector<int> corrected;
  size_t begin = 0;
  for (DeviceUnit* unit : units) {
    if (unit->correct_flags(all, begin)) corrected.push_back(unit->id());
    begin += unit->present().size();
  }
  return corrected;
}

std::vector<int> DeviceContext::reductions_end(bool everywhere, bool as_before) {
  const std::vector<int> begun = order_.begun_in_order();
  if (order_.end(everywhere)) learn_order(begun);
  stalled_ = false;
  const std::vector<int> corrected = everywhere && !as_before ? correct_flags() : std::vector<int>();
  backwards_.end(everywhere, as_before);
  for (const auto& [id, unit] : units_) unit->backward_ends(everywhere);
  return corrected;
}

void DeviceContext::ranks_differ(bool differ) {
  order_.hold_back(differ);
  if (differ) backwards_.ranks_differ();
}

bool DeviceContext::stalls(c10d::Work& work) {
  if (!device_.is_cpu()) return false;
  for (Patience patience(paced(stalled_ ? kStalledAgain : kStalled)); !work.isCompleted() && !patience.is_over();)
    std::this_thread::sleep_for(kBetweenLooks);
  stalled_ |= !work.isCompleted();
  return !work.isCompleted();
}

// Work that the device is in the midst of would wait for peers that may never come.
std::exception_ptr DeviceContext::explain(const std::string& start, const std::exception_ptr& failure) {
  abort();
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
