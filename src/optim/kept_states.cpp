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

int64_t numel_of(const std::vector<torch::Tensor>& pieces) {
  int64_t numel = 0;
  for (const torch::Tensor& piece : pieces) numel += piece.numel();
  return numel;
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

bool unpacks_states(const Rule& rule) {
  return !rule.takes_kept && std::any_of(rule.states.begin(), rule.states.end(),
                                         [](const RuleState& state) { return state.format->pack != nullptr; });
}

UpdateBatch KeptStates::unpack(const UpdateBatch& batch) {
  UpdateBatch in_fp32 = batch;
  in_fp32.states.clear();
  const int64_t numel = numel_of(batch.pieces);
  size_t first = 0;
  for (size_t number = 0; number < rule_.states.size(); ++number) {
    const StateFormat& format = *rule_.states[number].format;
    auto& tensors = in_fp32.states.emplace_back();
    torch::Tensor& unpacked = unpacked_[number];
    if (format.unpack != nullptr && (!unpacked.defined() || unpacked.numel() < numel)) {
      unpacked = torch::empty({numel}, batch.pieces[0].options().dtype(torch::kFloat32));
    }
    int64_t begin = 0;
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      const auto kept = kept_of(batch, format, first, i);
      const int64_t end = begin + batch.pieces[i].numel();
      tensors.push_back(format.unpack == nullptr ? kept[0] : unpacked.slice(0, begin, end));
      if (format.unpack != nullptr) format.unpack(kept, tensors.back());
      begin = end;
    }
    first += format.tensors.size();
  }
  return in_fp32;
}

void KeptStates::pack(const UpdateBatch& in_fp32, const UpdateBatch& batch) {
  size_t first = 0;
  for (size_t number = 0; number < rule_.states.size(); ++number) {
    const StateFormat& format = *rule_.states[number].format;
    for (size_t i = 0; format.pack != nullptr && i < batch.pieces.size(); ++i) {
      format.pack(in_fp32.states[number][i], kept_of(batch, format, first, i));
    }
    first += format.tensors.size();
  }
}

void KeptStates::update(const UpdateBatch& batch, const Settings& settings) {
  if (!unpacks_states(rule_)) return rule_.update(batch, settings);
  const UpdateBatch in_fp32 = unpack(batch);
  rule_.update(in_fp32, settings);
  pack(in_fp32, batch);
}

}  // namespace fsdp::optim
