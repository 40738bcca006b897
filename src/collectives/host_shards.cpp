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

#include "base/error.h"
#include "collectives/backends.h"
#include "memory/side_stream.h"

namespace fsdp::collectives {

namespace {

using memory::Moment;
using memory::SideStream;

class HostShardUnit;

// Shared by the units of a group.
struct Copies {
  explicit Copies(const torch::Device& device_) : device(device_), to_device(device_), to_host(device_) {}

  const torch::Device device;
  const SideStream to_device, to_host;
  std::deque<HostShardUnit*> put_off;  // reductions that are still to be begun on the host, in their order
};

class HostShardUnit final : public UnitCollectives {
 public:
  HostShardUnit(std::shared_ptr<Group> host, std::shared_ptr<Copies> copies, const GroupUnitSpec& spec)
      : host_(std::move(host)),
        copies_(std::move(copies)),
        full_numel_(spec.layout.full_numel()),
        dtype_(spec.dtype),
        unit_(host_->open_unit(spec)) {}
  ~HostShardUnit() override { std::erase(copies_->put_off, this); }

  // Begin the group's reductions on the host, in order: those whose gradients have arrived, or all.
  static void begin_arrived(Copies& copies);
  static void begin_all(Copies& copies);

  Capabilities capabilities() const override {
    const Capabilities host = unit_->capabilities();
    return {.into_buffer = true, .one_sided = host.one_sided, .any_order = host.any_order, .joins = host.joins};
  }
  torch::Tensor shard() const override { return unit_->shard(); }
  UnitBytes bytes() const override;
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override;
  void publish() override { unit_->publish(); }
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void join_gather(const torch::Tensor&) override {
    begin_all(*copies_);
    unit_->join_gather(torch::empty({full_numel_}, torch::dtype(dtype_)));
  }
  bool gather_stalls() override { return unit_->gather_stalls(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override;
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override { return sum_ == nullptr && unit_->sum_is_complete(); }

 private:
  bool uses_device() const { return !copies_->device.is_cpu(); }
  torch::Tensor pinned(int64_t numel, torch::ScalarType dtype) const {
    return torch::empty({numel}, torch::dtype(dtype).pinned_memory(uses_device()));
  }
  void begin_on_host();
  // Begins this reduction on the host, and all that were put off before it.
  void begin_up_to_this();

  std::shared_ptr<Group> host_;
  std::shared_ptr<Copies> copies_;
  int64_t full_numel_;
  torch::ScalarType dtype_;
  torch::Tensor buffer_;
  Moment buffer_is_free_;
  Moment shard_is_read_;     // the end of the last copy of it
  torch::Tensor host_full_;  // of a gather under way, where the group on the CPU needs a buffer
  // The reduction under way. Its gradients are on their way to the host until it is begun there.
  Gradients gradients_;
  GradientSum* sum_ = nullptr;  // null: no reduction is put off
  torch::Tensor arriving_;
  Moment arrived_;
  torch::Tensor host_gradients_;
  bool begun_everywhere_ = false;
  std::unique_ptr<UnitCollectives> unit_;
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
  buffer_is_free_ = Moment::of(memory::current_stream(copies_->device));
  if (unit_->capabilities().into_buffer) host_full_ = pinned(full_numel_, dtype_);
  unit_->begin_gather(host_full_, order);
}

// Unpinned units are first copied to pinned memory: the host would have to wait for a copy from unpinned memory.
void* HostShardUnit::wait_gather() {
  torch::NoGradGuard no_grad;
  unit_->capabilities().one_sided ? begin_arrived(*copies_) : begin_all(*copies_);
  torch::Tensor full = torch::from_blob(unit_->wait_gather(), {full_numel_}, torch::dtype(dtype_));
  const bool reads_shard = full.data_ptr() == unit_->shard().data_ptr();
  if (uses_device() && !full.is_pinned()) full = pinned(full_numel_, dtype_).copy_(full);
  const Moment copied =
      copies_->to_device.run(buffer_is_free_, [&] { buffer_.copy_(full, /*non_blocking=*/uses_device()); });
  copied.hold(memory::current_stream(copies_->device));
  if (reads_shard) shard_is_read_ = copied;
  unit_->release();
  host_full_ = torch::Tensor();
  return buffer_.mutable_data_ptr();
}

void HostShardUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  torch::NoGradGuard no_grad;
  arriving_ = pinned(gradients.values.numel(), gradients.values.scalar_type());
  begin_arrived(*copies_);
  arrived_ = copies_->to_host.run(Moment::of(memory::current_stream(copies_->device)),
                                  [&] { arriving_.copy_(gradients.values, /*non_blocking=*/uses_device()); });
  gradients_ = std::move(gradients);
  sum_ = &sum;
  copies_->put_off.push_back(this);
}

void HostShardUnit::begin_on_host() {
  torch::NoGradGuard no_grad;
  GradientSum& sum = *std::exchange(sum_, nullptr);
  arrived_.wait_on_host();
  const torch::ScalarType dtype = arriving_.scalar_type();
  host_gradients_ = host_->allocate(static_cast<int64_t>(arriving_.nbytes())).view(dtype);
  host_gradients_.copy_(arriving_);
  arriving_ = torch::Tensor();
  const torch::Tensor staging = torch::empty({unit_->staging_numel(*gradients_.layout)}, torch::dtype(dtype));
  unit_->begin_reduce({gradients_.layout, host_gradients_, std::move(gradients_.present), staging}, sum);
  gradients_ = {};
}

void HostShardUnit::begin_arrived(Copies& copies) {
  while (!copies.put_off.empty() && copies.put_off.front()->arrived_.is_over()) {
    HostShardUnit* const first = copies.put_off.front();
    copies.put_off.pop_front();
    first->begin_on_host();
  }
}

void HostShardUnit::begin_all(Copies& copies) {
  if (!copies.put_off.empty()) copies.put_off.back()->begin_up_to_this();
}

void HostShardUnit::begin_up_to_this() {
  while (sum_ != nullptr) {
    HostShardUnit* const first = copies_->put_off.front();
    copies_->put_off.pop_front();
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
  if (!std::exchange(begun_everywhere_, false)) begin_all(*copies_);
  unit_->wait_reduce();
  host_gradients_ = torch::Tensor();
}

void HostShardUnit::wait_sum() {
  begin_all(*copies_);
  unit_->wait_sum();
}

class HostShardGroup final : public Group {
 public:
  HostShardGroup(std::unique_ptr<Group> host, torch::Device device)
      : host_(std::move(host)), staged_(make_staged_group(host_, device)), copies_(std::make_shared<Copies>(device)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<HostShardUnit>(host_, copies_, spec);
  }
  torch::Tensor allocate(int64_t bytes) override { return staged_->allocate(bytes); }
  torch::Tensor allocate_sum(int64_t bytes, memory::Backing&) override { return host_->allocate(bytes); }
  int64_t buffer_bytes() const override { return host_->buffer_bytes(); }

  void note_call(const WorldCall* call) override { host_->note_call(call); }
  void compare(CallFacts* facts) override { host_->compare(facts); }
  void barrier() override {
    HostShardUnit::begin_all(*copies_);
    host_->barrier();
  }
  void all_reduce_(torch::Tensor& tensor) override {
    HostShardUnit::begin_all(*copies_);
    staged_->all_reduce_(tensor);
  }
  void broadcast_(torch::Tensor& tensor, int source) override {
    HostShardUnit::begin_all(*copies_);
    staged_->broadcast_(tensor, source);
  }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    HostShardUnit::begin_all(*copies_);
    return staged_->all_gather(tensor, purpose);
  }

 private:
  std::shared_ptr<Group> host_;
  std::unique_ptr<Group> staged_;  // for tensors on the device
  std::shared_ptr<Copies> copies_;
};

}  // namespace

std::unique_ptr<Group> make_host_shard_group(std::unique_ptr<Group> host, torch::Device device) {
  return std::make_unique<HostShardGroup>(std::move(host), device);
}

}  // namespace fsdp::collectives
