// A group for a model that is offloaded to the CPU. Full units and gradients lie on a device, shards and sums in the
// host's memory. It uses a group of the same ranks on the CPU.
//
// A gather runs on the host, and the full unit is copied to the device. A reduction copies gradients to the host and
// adds them there: the sums have the bits of the group on the CPU. A unit that is one shard is copied as well.
//
// Copies go through pinned memory, on one stream per direction, beside the computation. Only the device waits for full
// units. When gradients have arrived on the host, this rank begins their reduction there; until then it is put off.
// Before this rank waits for the reduction, it waits for the gradients. Before it waits for anything else that needs
// its peers, it begins all reductions that it has put off, since a peer may wait for them.
#include <deque>
#include <utility>

#include "collectives/backends.h"
#include "collectives/over_host.h"
#include "memory/side_stream.h"

namespace fsdp::collectives {

namespace {

using memory::Moment;

class HostShardUnit;

// Shared by the units of a group.
struct SharedByUnits {
  explicit SharedByUnits(const torch::Device& device_) : device(device_), copies(device_) {}

  const torch::Device device;
  const memory::CopyStreams copies;
  std::deque<HostShardUnit*> put_off;  // reductions that are still to be begun on the host, in their order
};

class HostShardUnit final : public UnitCollectives {
 public:
  HostShardUnit(std::shared_ptr<Group> host, std::shared_ptr<SharedByUnits> shared, const GroupUnitSpec& spec)
      : shared_(std::move(shared)), unit_(std::move(host), spec, /*pins=*/uses_device()) {}
  ~HostShardUnit() override { std::erase(shared_->put_off, this); }

  // Begin the group's reductions on the host, in order: those whose gradients have arrived, or all.
  static void begin_arrived(SharedByUnits& shared);
  static void begin_all(SharedByUnits& shared);

  Capabilities capabilities() const override { return unit_.capabilities(/*into_buffer=*/true); }
  torch::Tensor shard() const override { return unit_->shard(); }
  UnitBytes bytes() const override;
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override;
  void publish() override { unit_->publish(); }
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void join_gather(const torch::Tensor&) override {
    begin_all(*shared_);
    unit_.join_gather();
  }
  bool gather_stalls() override { return unit_->gather_stalls(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override;
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override { return sum_ == nullptr && unit_->sum_is_complete(); }

 private:
  bool uses_device() const { return !shared_->device.is_cpu(); }
  void begin_on_host();
  // Begins this reduction on the host, and all that were put off before it.
  void begin_up_to_this();

  std::shared_ptr<SharedByUnits> shared_;
  torch::Tensor buffer_;
  Moment buffer_is_free_;
  Moment shard_is_read_;  // the end of the last copy of it
  // The reduction under way. Its gradients are on their way to the host until it is begun there.
  Gradients gradients_;
  GradientSum* sum_ = nullptr;  // null: no reduction is put off
  torch::Tensor arriving_;
  Moment arrived_;
  torch::Tensor host_gradients_;
  bool begun_everywhere_ = false;
  HostUnit unit_;
};

UnitBytes HostShardUnit::bytes() const {
  UnitBytes bytes = unit_->bytes();
  for (const torch::Tensor& held : {arriving_, host_gradients_}) {
    if (held.defined()) bytes.reductions += static_cast<int64_t>(held.nbytes());
  }
  return bytes;
}

bool HostShardUnit::begin_write(Readers readers) {
  shard_is_read_.wait_on_host();
  return unit_->begin_write(readers);
}

void HostShardUnit::begin_gather(const torch::Tensor& buffer, Order order) {
  buffer_ = buffer;
  buffer_is_free_ = Moment::of(memory::current_stream(shared_->device));
  unit_.begin_gather(order);
}

// Unpinned units are first copied to pinned memory: the host would have to wait for a copy from unpinned memory.
void* HostShardUnit::wait_gather() {
  torch::NoGradGuard no_grad;
  unit_->capabilities().one_sided ? begin_arrived(*shared_) : begin_all(*shared_);
  torch::Tensor full = unit_.wait_gather();
  const bool reads_shard = full.data_ptr() == unit_->shard().data_ptr();
  if (uses_device() && !full.is_pinned()) full = unit_.full_unit().copy_(full);
  const Moment copied =
      shared_->copies.to_device.run(buffer_is_free_, [&] { buffer_.copy_(full, /*non_blocking=*/uses_device()); });
  copied.hold(memory::current_stream(shared_->device));
  if (reads_shard) shard_is_read_ = copied;
  unit_.release();
  return buffer_.mutable_data_ptr();
}

void HostShardUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  torch::NoGradGuard no_grad;
  arriving_ = torch::empty({gradients.values.numel()},
                           torch::dtype(gradients.values.scalar_type()).pinned_memory(uses_device()));
  begin_arrived(*shared_);
  arrived_ = shared_->copies.to_host.run(Moment::of(memory::current_stream(shared_->device)),
                                         [&] { arriving_.copy_(gradients.values, /*non_blocking=*/uses_device()); });
  gradients_ = std::move(gradients);
  sum_ = &sum;
  shared_->put_off.push_back(this);
}

void HostShardUnit::begin_on_host() {
  torch::NoGradGuard no_grad;
  GradientSum& sum = *std::exchange(sum_, nullptr);
  arrived_.wait_on_host();
  host_gradients_ = unit_.allocate(arriving_.numel(), arriving_.scalar_type());
  host_gradients_.copy_(arriving_);
  arriving_ = torch::Tensor();
  unit_.begin_reduce({gradients_.layout, host_gradients_, std::move(gradients_.present), {}}, sum);
  gradients_ = {};
}

void HostShardUnit::begin_arrived(SharedByUnits& shared) {
  while (!shared.put_off.empty() && shared.put_off.front()->arrived_.is_over()) {
    HostShardUnit* const first = shared.put_off.front();
    shared.put_off.pop_front();
    first->begin_on_host();
  }
}

void HostShardUnit::begin_all(SharedByUnits& shared) {
  if (!shared.put_off.empty()) shared.put_off.back()->begin_up_to_this();
}

void HostShardUnit::begin_up_to_this() {
  while (sum_ != nullptr) {
    HostShardUnit* const first = shared_->put_off.front();
    shared_->put_off.pop_front();
    first->begin_on_host();
  }
}

Begun HostShardUnit::wait_begun() {
  begin_up_to_this();
  const Begun begun = unit_->wait_begun();
  begun_everywhere_ = begun == Begun::Yes;
  return begun;
}

void HostShardUnit::wait_reduce() {
  if (!std::exchange(begun_everywhere_, false)) begin_all(*shared_);
  unit_->wait_reduce();
  host_gradients_ = torch::Tensor();
}

void HostShardUnit::wait_sum() {
  begin_all(*shared_);
  unit_->wait_sum();
}

class HostShardGroup final : public GroupOverHost {
 public:
  HostShardGroup(std::shared_ptr<Group> host, torch::Device device)
      : GroupOverHost(std::move(host), device), shared_(std::make_shared<SharedByUnits>(device)) {}

  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<HostShardUnit>(host(), shared_, spec);
  }
  torch::Tensor allocate_sum(int64_t bytes, memory::Backing&) override { return host()->allocate(bytes); }

 private:
  void before_wait() override { HostShardUnit::begin_all(*shared_); }

  std::shared_ptr<SharedByUnits> shared_;
};

}  // namespace

std::unique_ptr<Group> make_host_shard_group(std::unique_ptr<Group> host, torch::Device device) {
  return std::make_unique<HostShardGroup>(std::move(host), device);
}

}  // namespace fsdp::collectives
