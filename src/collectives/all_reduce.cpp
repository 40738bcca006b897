#include "collectives/all_reduce.h"

#include <algorithm>

#include "collectives/reduction.h"
#include "collectives/tags.h"

namespace fsdp::collectives {

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

// Every rank's part of ours, combined.
torch::Tensor reduce_own_part(Transport& transport, const std::vector<torch::Tensor>& parts, ReduceOp op) {
  const torch::Tensor& own = parts[transport.rank()];
  std::vector<torch::Tensor> received(transport.size(), own);
  Messages messages;
  for (int peer : transport.peers()) {
    received[peer] = torch::empty_like(own);
    messages.push_back(receive_tensor(transport, received[peer], peer, kPartTag));
    messages.push_back(send_tensor(transport, parts[peer], peer, kPartTag));
  }
  transport.wait_all(messages);
  return reduce_in_order(received, op);
}

void all_reduce_block(Transport& transport, const torch::Tensor& block, ReduceOp op) {
  std::vector<torch::Tensor> parts = split_evenly(block, transport.size());
  const torch::Tensor& own = parts[transport.rank()];
  own.copy_(reduce_own_part(transport, parts, op));
  Messages messages;
  for (int peer : transport.peers())
    messages.push_back(transport.receive_shared(parts[peer].mutable_data_ptr(), parts[peer].nbytes(), peer, kSumTag));
  transport.share(own.const_data_ptr(), own.nbytes(), kSumTag, messages);
  transport.wait_all(messages);
}

}  // namespace

void all_reduce_by_chunks(Transport& transport, const torch::Tensor& flat, ReduceOp op) {
  const int64_t block_numel = transport.size() * (transport.chunk_bytes() / static_cast<int64_t>(flat.element_size()));
  for (const torch::Tensor& block : flat.split(block_numel)) all_reduce_block(transport, block, op);
}

}  // namespace fsdp::collectives
