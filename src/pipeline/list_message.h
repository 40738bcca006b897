// The first message of a list of tensors: a description, and behind it the values, if there is room.
//
// The receiver knows the length of the message before it comes: it follows from the list before (`next_bytes`). So
// lists of one shape are one message each, and a list of another shape sends its values separately once.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>

#include "collectives/tensor_header.h"
#include "fsdp/pipeline.h"

namespace fsdp::pipeline {

inline constexpr int kMostTensors = 32;  // of a list

// Plain data.
struct ListDescription {
  struct Entry {
    int64_t defined = 0;
    int64_t requires_grad = 0;
    collectives::TensorHeader header = {};
    std::array<int64_t, collectives::TensorHeader::kMostDims> strides = {};
    int64_t misaligned = 0;  // elements behind an aligned address
    int64_t begin = 0;       // of its values in the message, in bytes, if there is room for all
  };
  int64_t count = 0;
  int64_t holds_values = 0;
  int64_t bytes = 0;  // of a message with all values
  std::array<Entry, kMostTensors> entries = {};

  // The bytes of the description in a message: entries of tensors that there are.
  int64_t own_bytes() const;
  // The length of the first message of the next list: a description of any list has room.
  int64_t next_bytes() const;
};

// The length of the first list's message.
inline constexpr int64_t kDescriptionBytes = sizeof(ListDescription);

// The description of a list of at most kMostTensors tensors, some of which may be undefined.
ListDescription describe(const Tensors& tensors);

// A message of so many bytes, [bytes] uint8. It holds `values`, if there is room for all: each contiguous and in the
// order of its memory, undefined ones left out. Sets `holds_values`.
torch::Tensor first_message(ListDescription& description, const Tensors& values, int64_t bytes);

// The description that a first message begins with.
ListDescription description_in(const torch::Tensor& message);
// A contiguous tensor of that shape on the values of an entry in the message, whose memory it shares.
torch::Tensor values_in(const torch::Tensor& message, const ListDescription::Entry& entry,
                        const std::vector<int64_t>& shape);

}  // namespace fsdp::pipeline
