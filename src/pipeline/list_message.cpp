#include "pipeline/list_message.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "pipeline/memory_order.h"

namespace fsdp::pipeline {

namespace {

// Copying more bytes into a message takes longer than a message of their own, which may be read where they lie.
constexpr int64_t kMostBytes = 256 << 10;
constexpr int64_t kNoRoom = std::numeric_limits<int64_t>::max();

int64_t aligned(int64_t bytes) { return (bytes + kAlignedBytes - 1) / kAlignedBytes * kAlignedBytes; }

}  // namespace

int64_t ListDescription::own_bytes() const {
  return static_cast<int64_t>(offsetof(ListDescription, entries) + static_cast<size_t>(count) * sizeof(Entry));
}

int64_t ListDescription::next_bytes() const {
  return bytes <= kMostBytes ? std::max(bytes, kDescriptionBytes) : kDescriptionBytes;
}

ListDescription describe(const Tensors& tensors) {
  ListDescription description{.count = std::ssize(tensors)};
  description.bytes = description.own_bytes();
  bool all_on_cpu = true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const torch::Tensor& tensor = tensors[i];
    if (!tensor.defined()) continue;
    ListDescription::Entry& entry = description.entries[i];
    entry = {1, tensor.requires_grad(), collectives::header_of(tensor), {}, misalignment_of(tensor)};
    std::ranges::copy(tensor.strides(), entry.strides.begin());
    entry.begin = aligned(description.bytes) + entry.misaligned * static_cast<int64_t>(tensor.element_size());
    description.bytes = entry.begin + static_cast<int64_t>(tensor.nbytes());
    all_on_cpu &= tensor.is_cpu();
  }
  if (!all_on_cpu) description.bytes = kNoRoom;
  return description;
}

torch::Tensor first_message(ListDescription& description, const Tensors& values, int64_t bytes) {
  description.holds_values = description.bytes <= bytes;
  torch::Tensor message = torch::empty({bytes}, torch::kUInt8);
  auto* const memory = message.mutable_data_ptr<uint8_t>();
  std::memcpy(memory, &description, static_cast<size_t>(description.own_bytes()));
  for (size_t i = 0; description.holds_values != 0 && i < values.size(); ++i) {
    if (values[i].defined() && values[i].numel() > 0)
      std::memcpy(memory + description.entries[i].begin, values[i].const_data_ptr(), values[i].nbytes());
  }
  return message;
}

ListDescription description_in(const torch::Tensor& message) {
  const void* const memory = message.const_data_ptr();
  ListDescription description;
  auto* const own = static_cast<void*>(&description);  // not all of it comes in one copy
  std::memcpy(own, memory, offsetof(ListDescription, entries));
  std::memcpy(own, memory, static_cast<size_t>(description.own_bytes()));
  return description;
}

torch::Tensor values_in(const torch::Tensor& message, const ListDescription::Entry& entry,
                        const std::vector<int64_t>& shape) {
  const torch::ScalarType dtype = entry.header.scalar_type();
  const int64_t offset = entry.begin / static_cast<int64_t>(c10::elementSize(dtype));
  return torch::empty({0}, torch::dtype(dtype)).set_(message.storage(), offset, shape);
}

}  // namespace fsdp::pipeline
