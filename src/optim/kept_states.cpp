#include "optim/kept_states.h"

#include <algorithm>

namespace fsdp::optim {

namespace {

// The tensors that keep one state of the batch's piece `i`; the first of them is number `first`.
std::vector<torch::Tensor> kept_of(const UpdateBatch& batch, const StateFormat& format, size_t first, size_t i) {
  std::vector<torch::Tensor> kept;
  for (size_t tensor = 0; tensor < format.tensors.size(); ++tensor) kept.push_back(batch.states[first + tensor][i]);
  return kept;
}

UpdateBatch unpacked(const Rule& rule, const UpdateBatch& batch) {
  UpdateBatch in_fp32 = batch;
  in_fp32.states.clear();
  size_t first = 0;
  for (const RuleState& state : rule.states) {
    auto& tensors = in_fp32.states.emplace_back();
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      const auto kept = kept_of(batch, *state.format, first, i);
      tensors.push_back(state.format->unpack == nullptr ? kept[0] : state.format->unpack(kept));
    }
    first += state.format->tensors.size();
  }
  return in_fp32;
}

void pack(const Rule& rule, const UpdateBatch& in_fp32, const UpdateBatch& batch) {
  size_t first = 0;
  for (size_t number = 0; number < rule.states.size(); ++number) {
    const StateFormat& format = *rule.states[number].format;
    for (size_t i = 0; format.pack != nullptr && i < batch.pieces.size(); ++i) {
      format.pack(in_fp32.states[number][i], kept_of(batch, format, first, i));
    }
    first += format.tensors.size();
  }
}

}  // namespace

std::vector<KeptTensor> kept_tensors(const Rule& rule) {
  std::vector<KeptTensor> all;
  for (const RuleState& state : rule.states) {
    for (const KeptTensor& tensor : state.format->tensors) {
      all.push_back({state.name + tensor.name, tensor.type, tensor.numel_each});
    }
  }
  return all;
}

bool has_packed_states(const Rule& rule) {
  return std::any_of(rule.states.begin(), rule.states.end(),
                     [](const RuleState& state) { return state.format->pack != nullptr; });
}

void update_kept(const Rule& rule, const UpdateBatch& batch, const Settings& settings) {
  if (!has_packed_states(rule)) return rule.update(batch, settings);
  const UpdateBatch in_fp32 = unpacked(rule, batch);
  rule.update(in_fp32, settings);
  pack(rule, in_fp32, batch);
}

}  // namespace fsdp::optim
