#include "collectives/tensor_collectives.h"

#include <cstring>
#include <memory>
#include <utility>

#include "collectives/all_reduce.h"
#include "collectives/divergence.h"
#include "collectives/reduction.h"
#include "collectives/tags.h"
#include "collectives/tree_broadcast.h"

namespace fsdp::collectives {

namespace {

static_assert(kSmallBytes == kExactLengths);

// A broadcast with facts sends the tensor at once if the source has no more than so much to send.
constexpr size_t kMostAtOnce = 256 << 10;

constexpr const char* kBroadcast = "enters a broadcast";

// This rank's tensor for every other, and theirs.
SharedBytes shared_by_all(const torch::Tensor& own, const std::vector<torch::Tensor>& parts) {
  SharedBytes shared{kEveryRank, own.nbytes(), share_tag(own.nbytes()), own.const_data_ptr()};
  for (const torch::Tensor& part : parts) shared.into.push_back(part.mutable_data_ptr());
  return shared;
}

}  // namespace

// False if the facts differ, and the operation is over.
bool TensorCollectives::begin(const std::string& purpose, size_t bytes, const SharedBytes& first) {
  CallFacts* const facts = std::exchange(facts_, nullptr);
  if (facts == nullptr) {
    transport_->begin_operation(purpose, bytes);
    share(*transport_, first);
    return true;
  }
  transport_->begin_operation(facts->call ? std::string(kComparedCall) + facts->call : purpose, sizeof facts->own);
  share_with_facts(*transport_, first, *facts);
  return !facts->differ();
}

// The messages are not empty: a transport may skip empty ones, and these are to be waited for.
void TensorCollectives::barrier() {
  const std::string purpose = "enters a barrier";
  if (transport_->begins_together()) {
    Messages none;
    begin(purpose, 0, {});
    return transport_->wait_all(none);
  }
  const char here = 1;
  std::vector<char> there(transport_->size());
  SharedBytes shared{kEveryRank, 1, kBarrierTag, &here};
  for (char& byte : there) shared.into.push_back(&byte);
  begin(purpose, 0, shared);
}

void TensorCollectives::all_reduce_(torch::Tensor& tensor, ReduceOp op) {
  torch::NoGradGuard no_grad;
  const torch::Tensor flat = tensor.detach().view({-1});
  const char* const purpose = "enters an all_reduce";
  if (static_cast<int64_t>(flat.nbytes()) > kSmallBytes) {
    if (begin(purpose, flat.nbytes(), {})) all_reduce_by_chunks(*transport_, flat, op);
    return;
  }
  const std::vector<torch::Tensor> parts = parts_around(flat, transport_->rank(), transport_->size());
  if (begin(purpose, flat.nbytes(), shared_by_all(flat, parts))) reduce_in_place(flat, parts, op);
}

void TensorCollectives::broadcast_(torch::Tensor& tensor, int source) {
  const size_t bytes = tensor.nbytes();
  const bool is_small = bytes <= kExactLengths && bytes * (transport_->size() - 1) <= kMostAtOnce;
  if (facts_ == nullptr || !is_small) {
    if (begin(kBroadcast, bytes, {})) broadcast_whole(tensor, source);
    return;
  }
  // The tensor keeps its values if the facts differ.
  const bool receives = transport_->rank() != source && bytes > 0;
  const auto arrived = receives ? std::make_unique_for_overwrite<char[]>(bytes) : nullptr;
  const SharedBytes shared{source, bytes, share_tag(bytes), tensor.const_data_ptr(),
                           std::vector<void*>(transport_->size(), arrived.get())};
  if (begin(kBroadcast, bytes, shared) && receives) std::memcpy(tensor.mutable_data_ptr(), arrived.get(), bytes);
}

void TensorCollectives::broadcast_whole(const torch::Tensor& tensor, int source) {
  if (!transport_->shares_once()) return broadcast_in_a_tree(*transport_, tensor, source);
  const SharedBytes shared{source, tensor.nbytes(), kBroadcastTag, tensor.const_data_ptr(),
                           std::vector<void*>(transport_->size(), tensor.mutable_data_ptr())};
  share(*transport_, shared);
}

std::vector<torch::Tensor> TensorCollectives::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  const std::vector<torch::Tensor> parts =
      parts_around(torch::empty_like(tensor), transport_->rank(), transport_->size());
  if (tensor.numel() > 0)
    std::memcpy(parts[transport_->rank()].mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
  SharedBytes shared = shared_by_all(tensor, parts);
  const bool at_once = facts_ == nullptr || static_cast<int64_t>(tensor.nbytes()) <= kSmallBytes;
  if (!begin(purpose, tensor.nbytes(), at_once ? shared : SharedBytes())) return {};
  if (!at_once) share(*transport_, shared);
  return parts;
}

bool TensorCollectives::exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                                 const std::string& purpose) {
  if (!begin(purpose, 0, {})) return false;
  const auto has_bytes = [](const torch::Tensor& tensor) { return tensor.defined() && tensor.nbytes() > 0; };
  Messages messages;
  for (int peer : transport_->peers()) {
    if (has_bytes(from[peer]))
      messages.push_back(transport_->receive(from[peer].mutable_data_ptr(), from[peer].nbytes(), peer, kExchangeTag));
    if (has_bytes(to[peer]))
      messages.push_back(transport_->send(to[peer].const_data_ptr(), to[peer].nbytes(), peer, kExchangeTag));
  }
  transport_->wait_all(messages);
  return true;
}

}  // namespace fsdp::collectives
