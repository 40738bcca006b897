#include "collectives/hosts/host_buffers.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "base/error.h"

namespace fsdp::collectives::hosts {

namespace {

constexpr int kFirst = 0;

}  // namespace

HostBuffers::HostBuffers(shm::SharedMemoryContext& shared) : shared_(&shared) {
  shm::OwnMemory& memory = *shared.memory();
  const uint64_t address = memory.allocate(sizeof(BufferControl));
  new (memory.at(address)) BufferControl;
  shm::Exchange& exchange = shared.exchange();
  exchange.begin("opens the host's buffers", sizeof(BufferControl));
  exchange.round([&](char* mailbox) { std::memcpy(mailbox, &address, sizeof address); });
  for (int rank = 0; rank < ranks().size(); ++rank) {
    uint64_t theirs = 0;
    std::memcpy(&theirs, exchange.mailbox(rank), sizeof theirs);
    controls_.push_back(reinterpret_cast<BufferControl*>(shared.memory_of(rank).at(theirs)));
  }
}

void HostBuffers::begin(BufferedGather& gather) {
  gather.number_ = ++begun_;
  gather.buffer_ = -1;
  waiting_.push_back(&gather);
  own().begun.set(begun_);
  ranks().ring();
  if (waiting_.size() > 1) return ranks().advance();
  if (!advance()) ranks().add(*this);
}

// May run in the thread that makes progress, so a failure is kept for those who ask.
bool HostBuffers::advance() {
  try {
    return place_waiting();
  } catch (...) {
    failure_ = std::current_exception();
    return true;
  }
}

bool HostBuffers::placed(const BufferedGather& gather) const {
  if (failure_) std::rethrow_exception(failure_);
  return gather.buffer_ >= 0;
}

bool HostBuffers::place_waiting() {
  const BufferControl& first = *controls_[kFirst];
  while (!waiting_.empty()) {
    BufferedGather& gather = *waiting_.front();
    const bool has_buffer = first.placed.get() >= gather.number_ || (ranks().rank() == kFirst && place(gather.number_));
    if (!has_buffer) return false;
    waiting_.pop_front();
    gather.buffer_ = static_cast<int>(first.buffer_of[gather.number_ % kMostBuffers]);
    gather.is_placed(shared_->memory_of(kFirst).at(first.address_of[gather.buffer_]));
  }
  return true;
}

bool HostBuffers::place(uint64_t number) {
  size_t buffer = 0;
  while (buffer < assigned_.size() && !is_free(buffer)) ++buffer;
  if (buffer == assigned_.size() && !needs_one_more(number)) return false;
  allocate(buffer);
  assigned_[buffer] = number;
  own().buffer_of[number % kMostBuffers] = buffer;
  own().placed.set(number);
  ranks().ring();
  return true;
}

// It is free; units opened later may be longer.
void HostBuffers::allocate(size_t buffer) {
  if (buffer == assigned_.size()) {
    FSDP_CHECK(buffer < kMostBuffers,
               "hosts: a rank holds more than {} full units at once, for which the ranks of a host have no more "
               "buffers. Choose fewer Options::buffers, or Options::full_on_each_host.",
               kMostBuffers);
    assigned_.push_back(0);
    allocated_bytes_.push_back(0);
  }
  if (allocated_bytes_[buffer] >= buffer_bytes_) return;
  if (allocated_bytes_[buffer] > 0) shared_->memory()->free(own().address_of[buffer]);
  own().address_of[buffer] = shared_->memory()->allocate(buffer_bytes_);
  allocated_bytes_[buffer] = buffer_bytes_;
}

int64_t HostBuffers::bytes() const {
  return std::accumulate(allocated_bytes_.begin(), allocated_bytes_.end(), int64_t{0});
}

bool HostBuffers::is_free(size_t buffer) const {
  for (int rank = 0; rank < ranks().size(); ++rank) {
    if (!has_released(rank, buffer)) return false;
  }
  return true;
}

// True if some rank has begun the gather while it holds all buffers that there are.
bool HostBuffers::needs_one_more(uint64_t number) const {
  for (int rank = 0; rank < ranks().size(); ++rank) {
    if (controls_[rank]->begun.get() < number) continue;
    bool holds_all = true;
    for (size_t buffer = 0; buffer < assigned_.size(); ++buffer) holds_all &= !has_released(rank, buffer);
    if (holds_all) return true;
  }
  return false;
}

bool HostBuffers::keeps_waiting(const BufferedGather& gather, int rank) const {
  if (failure_ || gather.buffer_ >= 0) return false;
  if (ranks().rank() != kFirst) return rank == kFirst;
  for (size_t buffer = 0; buffer < assigned_.size(); ++buffer) {
    if (has_released(kFirst, buffer) && !has_released(rank, buffer)) return true;
  }
  return false;
}

void HostBuffers::fill(const BufferedGather& gather) {
  own().filled[gather.buffer_].set(gather.number_);
  ranks().ring();
}

bool HostBuffers::filled(const BufferedGather& gather, int rank) const {
  return controls_[rank]->filled[gather.buffer_].get() >= gather.number_;
}

void HostBuffers::release(BufferedGather& gather) {
  std::erase(waiting_, &gather);
  if (gather.buffer_ < 0) return;
  own().released[gather.buffer_].set(gather.number_);
  gather.buffer_ = -1;
  ranks().ring();
}

}  // namespace fsdp::collectives::hosts
