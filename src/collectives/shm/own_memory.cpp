#include "collectives/shm/own_memory.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

size_t in_huge_pages(size_t bytes) { return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes; }

}  // namespace

OwnMemory::OwnMemory() {
  Part& first = add_part(sizeof(Control));
  const size_t offset = first.heap.take(sizeof(Control)).value();
  FSDP_INVARIANT(offset == 0, "the control block lies at {}, where no peer looks for it", offset);
  first.file.grant(offset, sizeof(Control));
  new (first.mapping.base()) Control;
  control().segments[0] = {first.file.descriptor(), first.mapping.bytes()};
}

// kMostSegments of these are more than an address space of 47 bits.
OwnMemory::Part& OwnMemory::add_part(size_t bytes) {
  FSDP_INVARIANT(count_ < kMostSegments, "{} segments hold only {} bytes", count_, reserved_);
  parts_[count_] = std::make_unique<Part>(in_huge_pages(std::max(bytes, reserved_ / 4)));
  Part& part = *parts_[count_++];
  reserved_ += part.mapping.bytes();
  return part;
}

uint64_t OwnMemory::allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  for (size_t number = 0; number < count_; ++number) {
    if (const auto offset = parts_[number]->heap.take(bytes)) return grant(number, *offset, bytes);
  }
  Part& part = add_part(bytes);
  control().segments[count_ - 1] = {part.file.descriptor(), part.mapping.bytes()};
  return grant(count_ - 1, part.heap.take(bytes).value(), bytes);
}

uint64_t OwnMemory::grant(size_t number, size_t offset, size_t bytes) {
  try {
    parts_[number]->file.grant(offset, bytes);
  } catch (...) {
    parts_[number]->heap.give_back(offset);
    throw;
  }
  return Address{number, offset}.packed();
}

void OwnMemory::free(uint64_t address) noexcept {
  const auto [number, offset] = Address::of(address);
  std::lock_guard lock(mutex_);
  Part& part = *parts_[number];
  part.file.take_back(offset, part.heap.give_back(offset));
}

char* OwnMemory::at(uint64_t address) {
  const auto [number, offset] = Address::of(address);
  return parts_[number]->mapping.base() + offset;
}

uint64_t OwnMemory::address_of(const void* begin, size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto* first = static_cast<const char*>(begin);
  for (size_t number = 0; number < count_; ++number) {
    const Mapping& mapping = parts_[number]->mapping;
    const char* end = mapping.base() + mapping.bytes();
    if (mapping.base() <= first && first + bytes <= end)
      return Address{number, static_cast<size_t>(first - mapping.base())}.packed();
  }
  throw_invariant(__FILE__, __LINE__, fmt::format("{} bytes do not lie in memory that the group allocated", bytes));
}

}  // namespace fsdp::collectives::shm
