#include "collectives/all_reduce.h"

#include <algorithm>

#include "collectives/tags.h"

namespace fsdp::collectives {

torch::Tensor sum_in_order(const std::vector<torch::Tensor>& parts) {
  torch::ScalarType dtype = parts[0].scalar_type();
  bool narrow = at::isReducedFloatingType(dtype);
  torch::Tensor sum = narrow ? parts[0].to(torch::kFloat32) : parts[0].clone();
  for (size_t i = 1; i < parts.size(); ++i) sum.add_(narrow ? parts[i].to(torch::kFloat32) : parts[i]);
  return sum.to(dtype);
}

namespace {

std::unique_ptr<Message> send_tensor(Wire& wire, const torch::Tensor& tensor, int peer, int tag) {
  return wire.send(tensor.const_data_ptr(), tensor.nbytes(), peer, tag);
}

std::unique_ptr<Message> receive_tensor(Wire& wire, const torch::Tensor& tensor, int peer, int tag) {
  return wire.receive(tensor.mutable_data_ptr(), tensor.nbytes(), peer, tag);
}

// Each rank's part of `flat`, which must not be longer than a chunk for each.
std::vector<torch::Tensor> split_evenly(const torch::Tensor& flat, int ranks) {
  int64_t each = (flat.numel() + ranks - 1) / ranks;
  std::vector<torch::Tensor> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t begin = std::min(rank * each, flat.numel());
    parts.push_back(flat.narrow(0, begin, std::min(each, flat.numel() - begin)));
  }
  return parts;
}

// The sum of every rank's part of ours.
torch::Tensor sum_own_part(Wire& wire, const std::vector<torch::Tensor>& parts) {
  const torch::Tensor& own = parts[wire.rank()];
  std::vector<torch::Tensor> received(wire.size(), own);
  Messages messages;
  for (int peer : wire.peers()) {
    received[peer] = torch::empty_like(own);
    messages.push_back(receive_tensor(wire, received[peer], peer, kPartTag));
    messages.push_back(send_tensor(wire, parts[peer], peer, kPartTag));
  }
  wire.wait_all(messages);
  return sum_in_order(received);
}

void all_reduce_block(Wire& wire, const torch::Tensor& block) {
  std::vector<torch::Tensor> parts = split_evenly(block, wire.size());
  torch::Tensor own = parts[wire.rank()];
  own.copy_(sum_own_part(wire, parts));
  Messages messages;
  for (int peer : wire.peers()) {
    messages.push_back(receive_tensor(wire, parts[peer], peer, kSumTag));
    messages.push_back(send_tensor(wire, own, peer, kSumTag));
  }
  wire.wait_all(messages);
}

}  // namespace

std::vector<torch::Tensor> all_gather_parts(Wire& wire, const torch::Tensor& tensor) {
  std::vector<torch::Tensor> parts(wire.size());
  parts[wire.rank()] = tensor.detach().clone();
  const int tag = all_gather_tag(tensor.nbytes());
  Messages messages;
  for (int peer : wire.peers()) {
    parts[peer] = torch::empty_like(parts[wire.rank()]);
    messages.push_back(receive_tensor(wire, parts[peer], peer, tag));
    messages.push_back(send_tensor(wire, tensor, peer, tag));
  }
  wire.wait_all(messages);
  return parts;
}

void all_reduce_in_order(Wire& wire, torch::Tensor& tensor) {
  torch::NoGradGuard no_grad;
  torch::Tensor flat = tensor.detach().view({-1});
  if (static_cast<int64_t>(flat.nbytes()) <= kSmallBytes) {
    flat.copy_(sum_in_order(all_gather_parts(wire, flat)));
    return;
  }
  int64_t block_numel = wire.size() * (kChunkBytes / static_cast<int64_t>(flat.element_size()));
  for (const torch::Tensor& block : flat.split(block_numel)) all_reduce_block(wire, block);
}

}  // namespace fsdp::collectives
