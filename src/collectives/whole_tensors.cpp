#include "collectives/whole_tensors.h"

#include <algorithm>

#include "collectives/all_reduce.h"
#include "collectives/plain_value.h"
#include "collectives/reduction.h"
#include "collectives/tensor_header.h"

namespace fsdp::collectives {

namespace {

using Tensors = std::vector<torch::Tensor>;

// The bytes of each rank's part that are combined at once: this bounds the extra memory.
constexpr int64_t kBlockBytes = 1 << 20;

// Such tensors travel to all ranks, in the first messages of the call: fewer messages one after the other.
bool is_small(const Group& group, const torch::Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes()) * group.size() <= kSmallBytes;
}

int64_t block_numel(const torch::Tensor& tensor) { return kBlockBytes / static_cast<int64_t>(tensor.element_size()); }

// The parts of every rank that belong to this one, given this rank's part for each; empty if the facts differ.
Tensors swap_parts(Group& group, const Tensors& parts, const char* purpose) {
  Tensors received = parts_around(parts[group.rank()], group.rank(), group.size());
  if (!group.tensors().exchange(parts, received, purpose)) return {};
  return received;
}

// Room for the tensors that this rank receives from the ranks in `from`, by rank. It sends `parts`, where they
// are defined. Empty if the facts differ.
Tensors swap_shapes(Group& group, const Tensors& parts, const std::vector<bool>& from, torch::Device device,
                    const char* purpose) {
  Tensors sent(group.size()), received(group.size()), result(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (parts[rank].defined()) sent[rank] = bytes_of_value(header_of(parts[rank]));
    if (from[rank]) received[rank] = bytes_of_value(TensorHeader());
  }
  if (!group.tensors().exchange(sent, received, purpose)) return {};
  for (int rank = 0; rank < group.size(); ++rank) {
    if (from[rank] && rank != group.rank())
      result[rank] = value_of_bytes<TensorHeader>(received[rank]).empty_like_it(device);
  }
  return result;
}

}  // namespace

void reduce_(Group& group, torch::Tensor& tensor, int root, ReduceOp op) {
  torch::NoGradGuard no_grad;
  const char* const purpose = "enters a reduce";
  const bool is_root = group.rank() == root;
  const torch::Tensor flat = tensor.detach().view({-1});
  if (is_small(group, flat)) {
    const Tensors all = group.all_gather(flat, purpose);
    if (is_root && !all.empty()) reduce_in_place(flat, all, op);
    return;
  }
  for (const torch::Tensor& block : flat.split(group.size() * block_numel(flat))) {
    const Tensors parts = block.tensor_split(group.size());
    const Tensors theirs = swap_parts(group, parts, purpose);
    if (theirs.empty()) return;
    Tensors to(group.size());
    to[root] = reduce_in_order(theirs, op);
    group.tensors().exchange(to, is_root ? parts : Tensors(group.size()), purpose);
    if (is_root) parts[root].copy_(to[root]);
  }
}

torch::Tensor reduce_scatter(Group& group, const torch::Tensor& tensor, ReduceOp op) {
  torch::NoGradGuard no_grad;
  const char* const purpose = "enters a reduce_scatter";
  const torch::Tensor rows = tensor.detach().view({group.size(), tensor.numel() / group.size()});
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape[0] /= group.size();
  torch::Tensor result = torch::empty(shape, tensor.options().memory_format(torch::MemoryFormat::Contiguous));
  const torch::Tensor flat = result.view({-1});
  if (is_small(group, tensor)) {
    Tensors parts = group.all_gather(rows, purpose);
    if (parts.empty()) return {};
    for (torch::Tensor& part : parts) part = part[group.rank()];
    flat.copy_(reduce_in_order(parts, op));
    return result;
  }
  for (int64_t begin = 0; begin < flat.numel(); begin += block_numel(flat)) {
    const int64_t numel = std::min(block_numel(flat), flat.numel() - begin);
    Tensors parts;
    for (int rank = 0; rank < group.size(); ++rank) parts.push_back(rows[rank].narrow(0, begin, numel));
    const Tensors theirs = swap_parts(group, parts, purpose);
    if (theirs.empty()) return {};
    flat.narrow(0, begin, numel).copy_(reduce_in_order(theirs, op));
  }
  return result;
}

std::vector<torch::Tensor> gather(Group& group, const torch::Tensor& tensor, int root) {
  torch::NoGradGuard no_grad;
  const char* const purpose = "enters a gather";
  const bool is_root = group.rank() == root;
  if (is_small(group, tensor)) {
    Tensors all = group.all_gather(tensor, purpose);
    return is_root ? all : Tensors();
  }
  Tensors to(group.size()), from(group.size());
  to[root] = tensor;
  for (int rank = 0; is_root && rank < group.size(); ++rank) from[rank] = torch::empty_like(tensor);
  if (!group.tensors().exchange(to, from, purpose) || !is_root) return {};
  from[root].copy_(tensor);
  return from;
}

torch::Tensor scatter(Group& group, const std::vector<torch::Tensor>& parts, int source, torch::Device device) {
  torch::NoGradGuard no_grad;
  const char* const purpose = "enters a scatter";
  const bool is_source = group.rank() == source;
  const Tensors to = is_source ? parts : Tensors(group.size());
  std::vector<bool> senders(group.size());
  senders[source] = true;
  const Tensors from = swap_shapes(group, to, senders, device, purpose);
  if (from.empty()) return {};
  group.tensors().exchange(to, from, purpose);
  return is_source ? parts[source].clone() : from[source];
}

std::vector<torch::Tensor> all_to_all(Group& group, const std::vector<torch::Tensor>& parts, torch::Device device) {
  torch::NoGradGuard no_grad;
  const char* const purpose = "enters an all_to_all";
  Tensors from = swap_shapes(group, parts, std::vector<bool>(group.size(), true), device, purpose);
  if (from.empty()) return {};
  group.tensors().exchange(parts, from, purpose);
  from[group.rank()] = parts[group.rank()].clone();
  return from;
}

}  // namespace fsdp::collectives
