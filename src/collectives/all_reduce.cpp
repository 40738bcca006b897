#include "collectives/all_reduce.h"

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

// Combines every rank's part of ours, in place.
void reduce_own_part(Transport& transport, const std::vector<torch::Tensor>& parts, ReduceOp op) {
  const torch::Tensor& own = parts[transport.rank()];
  const std::vector<torch::Tensor> received = parts_around(own, transport.rank(), transport.size());
  Messages messages;
  for (int peer : transport.peers()) {
    messages.push_back(receive_tensor(transport, received[peer], peer, kPartTag));
    messages.push_back(send_tensor(transport, parts[peer], peer, kPartTag));
  }
  transport.wait_all(messages);
  reduce_in_place(own, received, op);
}

void all_reduce_block(Transport& transport, const torch::Tensor& block, ReduceOp op) {
  const std::vector<torch::Tensor> parts = block.tensor_split(transport.size());
  reduce_own_part(transport, parts, op);
  const torch::Tensor& own = parts[transport.rank()];
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
