#include "optim/state_format.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "layout/unit_layout.h"
#include "optim/block8.h"

namespace fsdp::optim {

namespace {

static_assert(layout::kAlignmentNumel % kBlock8Numel == 0, "a block would lie in two shards");

using Tensors = std::span<const torch::Tensor>;

constexpr int64_t kBlocksPerThread = 64;  // at least

void unpack_bfloat16(Tensors kept, const torch::Tensor& state) { torch::Tensor(state).copy_(kept[0]); }

void pack_bfloat16(const torch::Tensor& state, Tensors kept) { torch::Tensor(kept[0]).copy_(state); }

// Calls `visit` with the first block of each thread's part, its first element and its size.
template <typename Visit>
void for_each_thread(int64_t numel, const Visit& visit) {
  at::parallel_for(0, block8_count(numel), kBlocksPerThread, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kBlock8Numel;
    visit(begin, first, static_cast<size_t>(std::min(end * kBlock8Numel, numel) - first));
  });
}

template <typename Code>
void unpack_block8(Tensors kept, const torch::Tensor& state) {
  const Code* codes = kept[0].const_data_ptr<Code>();
  const float* scales = kept[1].const_data_ptr<float>();
  auto* values = state.mutable_data_ptr<float>();
  for_each_thread(state.numel(), [=](int64_t block, int64_t first, size_t numel) {
    block8_unpack(std::span(codes + first, numel), scales + block, values + first);
  });
}

template <typename Code>
void pack_block8(const torch::Tensor& state, Tensors kept) {
  const auto* values = state.const_data_ptr<float>();
  Code* codes = kept[0].mutable_data_ptr<Code>();
  float* scales = kept[1].mutable_data_ptr<float>();
  for_each_thread(state.numel(), [=](int64_t block, int64_t first, size_t numel) {
    block8_pack(std::span(values + first, numel), codes + first, scales + block);
  });
}

template <typename Code>
StateFormat block8() {
  return {.tensors = {{"", c10::CppTypeToScalarType<Code>::value}, {"_scale", torch::kFloat32, kBlock8Numel}},
          .unpack = unpack_block8<Code>,
          .pack = pack_block8<Code>,
          .only_on_cpu = true};
}

const StateFormat kBFloat16State{.tensors = {{"", torch::kBFloat16}}, .unpack = unpack_bfloat16, .pack = pack_bfloat16};
const StateFormat kSignedBlock8State = block8<int8_t>();
const StateFormat kUnsignedBlock8State = block8<uint8_t>();

}  // namespace

const StateFormat kFloat32State{.tensors = {{"", torch::kFloat32}}};

std::vector<RuleState> adam_moments(StateDtype dtype) {
  const bool block8 = dtype == StateDtype::Block8;
  const StateFormat* other = dtype == StateDtype::BFloat16 ? &kBFloat16State : &kFloat32State;
  return {{"exp_avg", block8 ? &kSignedBlock8State : other}, {"exp_avg_sq", block8 ? &kUnsignedBlock8State : other}};
}

}  // namespace fsdp::optim
