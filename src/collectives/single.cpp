// A group of one rank: nothing is exchanged, a gather hands out the shard itself, and a reduction is an addition.
//
// On a GPU, a 16-bit unit that is full only during its use has its shard in fp32 alone. A gather casts it into the
// buffer, which saves 2 bytes per parameter. Elsewhere a copy of the shard in 16 bits lies there between two writes.
#include "base/error.h"
#include "collectives/backends.h"
#include "collectives/element_type.h"
#include "memory/mapped_tensor.h"

namespace fsdp::collectives {

namespace {

class SingleUnit : public UnitCollectives {
 public:
  SingleUnit(const GroupUnitSpec& spec, torch::Device device, torch::ScalarType dtype)
      : shard_(spec.backing->zeros(spec.layout.shard_numel(), torch::dtype(dtype).device(device))) {}

  Capabilities capabilities() const override { return {.into_buffer = false, .one_sided = true, .any_order = true}; }
  torch::Tensor shard() const override { return shard_; }
  UnitBytes bytes() const override { return {}; }
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers) override { return true; }
  void publish() override {}
  void begin_gather(const torch::Tensor&, Order) override { memory::read_ahead(shard_); }
  void* wait_gather() override { return shard_.data_ptr(); }
  void release() override { memory::put_away(shard_); }

  void begin_reduce(Gradients gradients, GradientSum& sum) override {
    std::vector<layout::Range> segments;
    for (size_t i = 0; i < gradients.layout->parameters(); ++i) segments.push_back(gradients.layout->segment_of(i, 0));
    const Addend addend{gradients.values.const_data_ptr(), gradients.present};
    add_in_order(sum.values.mutable_data_ptr<float>(), sum.held, segments, {&addend, 1},
                 element_type_of(gradients.values.scalar_type()));
  }
  Begun wait_begun() override { return Begun::Yes; }
  void wait_reduce() override {}
  void wait_sum() override {}
  bool sum_is_complete() override { return true; }

 private:
  torch::Tensor shard_;
};

class CastUnit final : public SingleUnit {
 public:
  CastUnit(const GroupUnitSpec& spec, torch::Device device) : SingleUnit(spec, device, torch::kFloat32) {}

  Capabilities capabilities() const override { return {.one_sided = true, .any_order = true}; }
  void begin_gather(const torch::Tensor& buffer, Order order) override {
    torch::NoGradGuard no_grad;
    SingleUnit::begin_gather(buffer, order);
    buffer_ = buffer;
    buffer_.copy_(shard());
  }
  void* wait_gather() override { return buffer_.mutable_data_ptr(); }
  void release() override {
    buffer_ = torch::Tensor();
    SingleUnit::release();
  }

 private:
  torch::Tensor buffer_;
};

class SingleOperations final : public TensorOperations {
 public:
  void barrier() override {}
  void all_reduce_(torch::Tensor&, ReduceOp) override {}
  void broadcast_(torch::Tensor&, int) override {}
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string&) override {
    return {tensor.detach().clone()};
  }
  bool exchange(const std::vector<torch::Tensor>&, const std::vector<torch::Tensor>&, const std::string&) override {
    return true;
  }
  std::unique_ptr<TensorMessage> send(const torch::Tensor&, int peer, int) override { no_peer(peer); }
  std::unique_ptr<TensorMessage> receive_(torch::Tensor&, int peer, int) override { no_peer(peer); }

 private:
  [[noreturn]] static void no_peer(int peer) {
    throw_error(fmt::format("{}found a message to or from rank {} in a group of one rank", message_prefix(), peer));
  }
};

class SingleGroup final : public Group {
 public:
  explicit SingleGroup(torch::Device device) : device_(device) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    if (device_.is_cuda() && spec.dtype != torch::kFloat32 && !spec.may_be_kept)
      return std::make_unique<CastUnit>(spec, device_);
    return std::make_unique<SingleUnit>(spec, device_, spec.dtype);
  }
  torch::Tensor allocate(int64_t bytes) override {
    return torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device_));
  }
  TensorOperations& tensors() override { return tensors_; }

 private:
  torch::Device device_;
  SingleOperations tensors_;
};

}  // namespace

std::unique_ptr<Group> make_single_group(torch::Device device) { return std::make_unique<SingleGroup>(device); }

}  // namespace fsdp::collectives
