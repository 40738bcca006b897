// A unit that is gathered each time it is used, once for all ranks of a host: into a buffer that they share
// (host_buffers.h).
//
// A rank sends its shard to its counterparts at once. When the gather has its buffer, a background task puts this
// rank's shard and its counterparts' into their places. When all ranks of the host have done so, the unit is full. All
// ranks begin gathers in one order, which gives the buffers away.
#include <cstring>
#include <exception>
#include <string>

#include "base/error.h"
#include "collectives/hosts/background_task.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/host_buffers.h"
#include "collectives/hosts/hosts_parameters.h"
#include "collectives/shm/unit_memory.h"
#include "collectives/tags.h"

namespace fsdp::collectives::hosts {

namespace {

constexpr const char* kReadersOfGathered = "waiting for the readers of this rank's shard";

class GatheredParameters final : public HostsParameters, private BufferedGather {
 public:
  GatheredParameters(HostsContext& context, const GroupUnitSpec& spec, shm::UnitMemory& memory);
  // Ends a gather under way, and lets the counterparts have this rank's shard, unless the group failed or the stack is
  // being unwound.
  ~GatheredParameters() override;

  bool one_sided() const override { return false; }
  int64_t bytes() const override { return 0; }  // the group's buffers
  bool begin_write(Readers readers) override;
  void publish() override {}
  void begin_gather(Order order) override;
  void* wait_gather() override;
  void release() override {
    context_.buffers().release(*this);
    memory_.release();
  }

 private:
  void is_placed(char* buffer) override;
  void fill();
  void wait_placed();
  void end_gather(const char* operation);

  HostsContext& context_;
  std::string name_, prefix_, purpose_;
  int tag_;
  shm::UnitMemory& memory_;
  layout::UnitLayout layout_;
  std::vector<int> fetched_from_;
  bool begun_ = false;  // a gather, of which not everything sent has arrived yet
  char* buffer_ = nullptr;
  Messages receives_;
  Messages sends_;
  std::exception_ptr failure_;  // of what was done when the gather was placed
  BackgroundTask task_;         // ends before what it uses
};

GatheredParameters::GatheredParameters(HostsContext& context, const GroupUnitSpec& spec, shm::UnitMemory& memory)
    : context_(context),
      name_(spec.name),
      prefix_(message_prefix(spec.name)),
      purpose_("gathers unit " + spec.name),
      tag_(tag_of(spec.id, UnitMessage::Gather)),
      memory_(memory),
      layout_(spec.layout),
      fetched_from_(context.counterparts_in_group(spec.layout)),
      task_(context.threads()) {
  context_.in_memory(prefix_, "open", [&] { context_.open_buffers(); });
  context_.buffers().hold(layout_.full_numel() * static_cast<int64_t>(c10::elementSize(spec.dtype)));
}

GatheredParameters::~GatheredParameters() {
  try {
    if (std::uncaught_exceptions() == 0) end_gather("gather");
  } catch (const std::exception&) {
    // Its later users get the error.
  }
  task_.cancel();
  release();
}

bool GatheredParameters::begin_write(Readers readers) {
  if (readers == Readers::Ask && begun_ && (!buffer_ || task_.is_running())) return false;
  end_gather(kReadersOfGathered);
  return true;
}

void GatheredParameters::begin_gather(Order order) {
  end_gather("gather");
  memory_.read_ahead();
  context_.on_wire(prefix_, "gather", [&] {
    const bool of_all = static_cast<int>(fetched_from_.size()) + 1 == context_.hosts();
    if (order == Order::Common) context_.wire()->begins(purpose_, of_all ? Among::All : Among::Some);
    const torch::Tensor own = memory_.shard();
    for (int rank : fetched_from_)
      sends_.push_back(context_.wire()->send(own.const_data_ptr(), own.nbytes(), rank, tag_));
  });
  begun_ = true;
  buffer_ = nullptr;
  context_.in_memory(prefix_, "gather", [&] { context_.buffers().begin(*this); });
}

// A failure is kept for `wait_gather`.
void GatheredParameters::is_placed(char* buffer) {
  buffer_ = buffer;
  try {
    const size_t bytes = memory_.shard().nbytes();
    for (int rank : fetched_from_)
      receives_.push_back(context_.wire()->receive(buffer_ + layout_.shard_index(rank) * bytes, bytes, rank, tag_));
    task_.start([this] { fill(); });
  } catch (...) {
    failure_ = std::current_exception();
  }
}

// The task.
void GatheredParameters::fill() {
  const torch::Tensor own = memory_.shard();
  std::memcpy(buffer_ + layout_.shard_index(context_.rank()) * own.nbytes(), own.const_data_ptr(), own.nbytes());
  for (const auto& message : receives_) task_.wait_for(*message);
  context_.buffers().fill(*this);
  task_.step_is_done();
  for (const auto& message : sends_) task_.wait_for(*message);
}

void GatheredParameters::wait_placed() {
  HostBuffers& buffers = context_.buffers();
  context_.in_memory(prefix_, "gather", [&] {
    while (!buffers.placed(*this)) {
      context_.ranks().wait(context_.ranks().peers(), purpose_,
                            [&](int number) { return !buffers.keeps_waiting(*this, number); });
      context_.ranks().advance();
    }
    if (failure_) std::rethrow_exception(failure_);
  });
}

void* GatheredParameters::wait_gather() {
  wait_placed();
  context_.on_wire(prefix_, "gather", [&] {
    Messages all;
    all.push_back(task_.steps(1));
    context_.wait_all(all);
  });
  context_.in_memory(prefix_, "gather", [&] {
    context_.ranks().wait(context_.ranks().peers(), purpose_,
                          [&](int number) { return context_.buffers().filled(*this, number); });
  });
  return buffer_;
}

void GatheredParameters::end_gather(const char* operation) {
  if (!begun_) return;
  if (!buffer_) wait_placed();
  context_.on_wire(prefix_, operation, [&] {
    if (failure_) std::rethrow_exception(failure_);
    Messages all;
    all.push_back(task_.end());
    context_.wait_all(all);
  });
  receives_.clear();
  sends_.clear();
  begun_ = false;
}

}  // namespace

std::unique_ptr<HostsParameters> make_gathered_parameters(HostsContext& context, const GroupUnitSpec& spec,
                                                          shm::UnitMemory& memory) {
  return std::make_unique<GatheredParameters>(context, spec, memory);
}

}  // namespace fsdp::collectives::hosts
