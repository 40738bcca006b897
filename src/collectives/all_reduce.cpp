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

std::unique_ptr<Message> send_tensor(Transport& transport, const torch::Tensor& tensor, int peer, int tag) {
  return transport.send(tensor.const_data_ptr(), tensor.nbytes(), peer, tag);
}

std::unique_ptr<Message> receive_tensor(Transport& transport, const torch::Tensor& tensor, int peer, int tag) {
  return transport.receive(tensor.mutable_data_ptr(), tensor.nbytes(), peer, tag);
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
torch::Tensor sum_own_part(Transport& transport, const std::vector<torch::Tensor>& parts) {
  const torch::Tensor& own = parts[transport.rank()];
  std::vector<torch::Tensor> received(transport.size(), own);
  Messages messages;
  for (int peer : transport.peers()) {
    received[peer] = torch::empty_like(own);
    messages.push_back(receive_tensor(transport, received[peer], peer, kPartTag));
    messages.push_back(send_tensor(transport, parts[peer], peer, kPartTag));
  }
  transport.wait_all(messages);
  return sum_in_order(received);
}

void all_reduce_block(Transport& transport, const torch::Tensor& block) {
  std::vector<torch::Tensor> parts = split_evenly(block, transport.size());
  const torch::Tensor& own = parts[transport.rank()];
  own.copy_(sum_own_part(transport, parts));
  Messages messages;
  for (int peer : transport.peers())
    messages.push_back(transport.receive_shared(parts[peer].mutable_data_ptr(), parts[peer].nbytes(), peer, kSumTag));
  transport.share(own.const_data_ptr(), own.nbytes(), kSumTag, messages);
  transport.wait_all(messages);
}

}  // namespace

void all_reduce_by_chunks(Transport& transport, const torch::Tensor& flat) {
  const int64_t block_numel = transport.size() * (transport.chunk_bytes() / static_cast<int64_t>(flat.element_size()));
  for (const torch::Tensor& block : flat.split(block_numel)) all_reduce_block(transport, block);
}

}  // namespace fsdp::collectives
