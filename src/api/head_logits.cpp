#include "api/head_logits.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "plan/logit_chunks.h"

namespace fsdp {

using torch::Tensor;

namespace {

plan::LogitSizes sizes_of(int64_t rows, int64_t vocabulary, torch::ScalarType dtype, const torch::Device& device,
                          int64_t chunk_bytes) {
  return {.rows = std::max<int64_t>(rows, 1),
          .vocabulary = vocabulary,
          .bytes_of_logit = static_cast<int64_t>(c10::elementSize(dtype)),
          .bytes_beside = bytes_beside_logit(dtype, device),
          .room = chunk_bytes,
          .on_cpu = device.is_cpu()};
}

plan::LogitChunks division_of(const Head& head) {
  return plan::logit_chunks(sizes_of(head.hidden.size(0), head.weight.size(0), head.hidden.scalar_type(),
                                     head.hidden.device(), head.chunk_bytes));
}

// A chunk's part of the matrices.
class HeadChunk {
 public:
  HeadChunk(const Head& head, const plan::LogitChunks& division, int64_t number)
      : head_(head),
        first_(number * division.columns),
        columns_(std::min(division.columns, head.weight.size(0) - first_)) {}

  Tensor rows_of(const Tensor& weight) const { return weight.narrow(0, first_, columns_); }
  Tensor target() const { return head_.targets - first_; }
  int64_t numel() const { return head_.hidden.size(0) * columns_; }
  // Made in `place`, which has room for them.
  Tensor logits_in(const Tensor& place) const {
    Tensor logits = place.narrow(0, 0, numel()).view({head_.hidden.size(0), columns_});
    return at::mm_out(logits, head_.hidden, rows_of(head_.weight).t());
  }

 private:
  const Head& head_;
  int64_t first_, columns_;
};

// For the logits of one chunk after the other.
class WorkingPlace {
 public:
  WorkingPlace(const Head& head, const plan::LogitChunks& division) : head_(head), columns_(division.columns) {}

  const Tensor& get() {
    if (!place_.defined()) place_ = torch::empty({head_.hidden.size(0) * columns_}, head_.hidden.options());
    return place_;
  }

 private:
  const Head& head_;
  int64_t columns_;
  Tensor place_;
};

// A product has the dtype of its factors.
void add_product(const Tensor& sum, const Tensor& left, const Tensor& right) {
  if (sum.dtype() == left.dtype()) {
    sum.addmm_(left, right);
  } else {
    sum.add_(left.mm(right));
  }
}

}  // namespace

int64_t bytes_of_kept_logits(int64_t rows, int64_t vocabulary, torch::ScalarType dtype, const torch::Device& device,
                             int64_t chunk_bytes) {
  const plan::LogitSizes sizes = sizes_of(rows, vocabulary, dtype, device, chunk_bytes);
  return rows * plan::kept_logit_columns(sizes) * sizes.bytes_of_logit;
}

HeadStatistics head_statistics(const Head& head, bool with_total, Keep keep) {
  const plan::LogitChunks division = division_of(head);
  const int64_t kept = keep == Keep::WhatFits ? division.kept : 0;
  HeadStatistics found{.rows = statistics_of_no_logits(head.hidden, with_total), .kept = {}};
  WorkingPlace working(head, division);
  for (int64_t number = 0; number < division.count; ++number) {
    const HeadChunk chunk(head, division, number);
    const bool is_kept = number < kept;
    const Tensor logits =
        chunk.logits_in(is_kept ? torch::empty({chunk.numel()}, head.hidden.options()) : working.get());
    add_to(found.rows, {.logits = logits, .target = chunk.target()});
    if (is_kept) found.kept.emplace_back(logits);
  }
  return found;
}

void write_gradients(const Head& head, const LogitGradient& of_logits, KeptLogits kept, const HeadGradients& into) {
  const plan::LogitChunks division = division_of(head);
  WorkingPlace working(head, division);
  for (int64_t number = 0; number < division.count; ++number) {
    const HeadChunk chunk(head, division, number);
    const auto place = static_cast<size_t>(number);
    const Tensor logits = place < kept.size() ? std::exchange(kept[place], {}).get() : chunk.logits_in(working.get());
    make_gradient({.logits = logits, .target = chunk.target()}, of_logits);
    if (into.of_hidden.defined()) add_product(into.of_hidden, logits, chunk.rows_of(head.weight));
    if (into.of_weight.defined()) {
      Tensor rows = chunk.rows_of(into.of_weight);
      at::mm_out(rows, logits.t(), head.hidden);
    }
  }
}

}  // namespace fsdp
