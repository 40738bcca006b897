#include "engine/group_peers.h"

#include <algorithm>

#include "engine/own_operators.h"

namespace fsdp::engine {

std::vector<std::vector<int64_t>> GroupPeers::all_gather(std::span<const int64_t> words, const std::string& purpose) {
  const OwnOperators own;
  torch::Tensor message = torch::empty({static_cast<int64_t>(words.size())}, torch::kInt64);
  std::ranges::copy(words, message.mutable_data_ptr<int64_t>());
  const auto exchange = [&] { return group_.all_gather(message, purpose); };
  std::vector<std::vector<int64_t>> all;
  for (const torch::Tensor& one : recorder_.waits(report::Activity::WaitAgreement, report::kNoUnit, exchange)) {
    const int64_t* begin = one.const_data_ptr<int64_t>();
    all.emplace_back(begin, begin + one.numel());
  }
  return all;
}

void GroupPeers::forward_begins(bool together) {
  const OwnOperators own;
  buffers_.forward_begins(together);
}

void GroupPeers::backward_ended(bool together) {
  const OwnOperators own;
  buffers_.backward_ends(together);
}

void GroupPeers::backward_measured() {
  const OwnOperators own;
  activation_budget_.backward_ends(group_);
}

}  // namespace fsdp::engine
