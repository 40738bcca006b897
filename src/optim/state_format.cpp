#include "optim/state_format.h"

#include "layout/unit_layout.h"
#include "optim/block8.h"

namespace fsdp::optim {

namespace {

static_assert(layout::kAlignmentNumel % kBlock8Numel == 0, "a block would lie in two shards");

using Tensors = std::span<const torch::Tensor>;

void unpack_bfloat16(Tensors kept, const torch::Tensor& state) { torch::Tensor(state).copy_(kept[0]); }

void pack_bfloat16(const torch::Tensor& state, Tensors kept) { torch::Tensor(kept[0]).copy_(state); }

// For rules that take it as it is.
template <typename Code>
StateFormat block8() {
  return {.tensors = {{"", c10::CppTypeToScalarType<Code>::value}, {"_scale", torch::kFloat32, kBlock8Numel}},
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
