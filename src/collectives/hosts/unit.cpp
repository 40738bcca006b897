#include "collectives/hosts/unit.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "collectives/shapes.h"

namespace fsdp::collectives::hosts {

namespace {

constexpr const char* kWaitingForReaders = "waiting for the readers of this rank's shard";

// A consignment as one message to wait for.
class Delivery final : public Message {
 public:
  Delivery(Courier& courier, Consignment& consignment) : courier_(courier), consignment_(consignment) {}
  void wait() override { courier_.wait(consignment_); }
  void abort() override { courier_.abort(); }

 private:
  Courier& courier_;
  Consignment& consignment_;
};

UnitMemory open_memory(Levels& levels, const UnitSpec& spec) {
  return levels.in_memory(message_prefix(spec.name), "open", [&] { return UnitMemory(levels, spec); });
}

}  // namespace

Unit::Unit(std::shared_ptr<Levels> levels, UnitSpec spec)
    : levels_(std::move(levels)),
      spec_(std::move(spec)),
      prefix_(message_prefix(spec_.name)),
      memory_(open_memory(*levels_, spec_)),
      reduction_(*levels_, memory_.members(), spec_) {
  check_number(spec_);
  fetch_.arrived = [this] { memory_.publish(); };
}

Unit::~Unit() {
  try {
    if (std::uncaught_exceptions() == 0) wait_fetched("publication");
  } catch (const std::exception&) {
    // Whoever still needs the group will be told.
  }
  levels_->courier().cancel(fetch_);
}

void Unit::wait_fetched(const char* operation) {
  if (fetched_) return;
  levels_->on_wire(prefix_, operation, [&] {
    Messages all;
    all.push_back(std::make_unique<Delivery>(levels_->courier(), fetch_));
    levels_->wait_all(all);
    fetch_.messages.clear();
  });
  fetched_ = true;
}

void Unit::begin_write() {
  levels_->wire()->begins("is about to write unit " + spec_.name);
  begin_write_in_any_order();
}

void Unit::begin_write_in_any_order() {
  wait_fetched(kWaitingForReaders);
  levels_->in_memory(prefix_, kWaitingForReaders, [&] { memory_.begin_write(); });
}

bool Unit::try_begin_write() {
  return fetched_ && levels_->in_memory(prefix_, kWaitingForReaders, [&] { return memory_.try_begin_write(); });
}

void Unit::publish() {
  if (memory_.fetched_from().empty() || spec_.layout.full_numel() == 0) return memory_.publish();
  levels_->on_wire(prefix_, "publication", [&] {
    Wire& wire = *levels_->wire();
    const int tag = tag_of(spec_.id, UnitMessage::Gather);
    const torch::Tensor own = shard();
    for (int rank : memory_.fetched_from())
      fetch_.messages.push_back(wire.receive(memory_.place_of(rank), own.nbytes(), rank, tag));
    for (int rank : memory_.fetched_from())
      fetch_.messages.push_back(wire.send(own.const_data_ptr(), own.nbytes(), rank, tag));
    fetched_ = false;
    levels_->courier().take(fetch_);
  });
}

void* Unit::wait_gather() {
  wait_fetched("gather");
  return levels_->in_memory(prefix_, "gather", [&] { return memory_.wait_full(); });
}

void Unit::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(!reduction_.under_way(), "unit {} is being reduced already", spec_.name);
  check_shapes(gradients, sum, spec_);
  const uint64_t offset = levels_->shared().offset_of(gradients.values);
  reduction_.begin(std::move(gradients), offset, sum);
}

}  // namespace fsdp::collectives::hosts
