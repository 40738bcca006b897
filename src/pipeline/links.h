// Lists of tensors between two ranks. A message with their shapes goes ahead, and holds the values of a short list
// (list_message.h), so shapes may differ from micro-batch to micro-batch. A list uses `tag` and the next one (tags.h).
// Lists of one tag are taken in the order in which they were sent. For one thread.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fsdp/pipeline.h"
#include "pipeline/list_message.h"
#include "pipeline/receive_buffers.h"

namespace fsdp::pipeline {

// The lists of one tag from one rank.
struct Source {
  int peer, tag;
  int64_t next_bytes = kDescriptionBytes;  // of the first message of the list after the last one that was taken
  int untaken = 0;                         // lists whose arrivals exist
};

// A list that is on its way to this rank.
class Arrival {
 public:
  // `source` outlives it.
  Arrival(World& axis, ReceiveBuffers& buffers, Source& source);
  // Waits for it. Tensors that required gradients at the sender do so here. Undefined ones stay undefined.
  Tensors take();

 private:
  void begin();
  Tensors receive_values(const ListDescription& description);

  World* axis_;
  ReceiveBuffers* buffers_;
  Source* source_;
  torch::Tensor first_;       // message; undefined until its length is known
  std::optional<Work> came_;  // of that message
};

class Links {
 public:
  explicit Links(World axis) : axis_(std::move(axis)) {}

  // Begins to send the list. The tensors must not change until `finish`.
  void send(const Tensors& tensors, int peer, int tag);
  Arrival receive(int peer, int tag);
  // Waits until all lists that were sent have left.
  void finish();

 private:
  struct Sent {
    torch::Tensor tensor;
    Work work;
  };
  void send_one(const torch::Tensor& tensor, int peer, int tag);

  using Way = std::pair<int, int>;  // a peer and a tag

  World axis_;
  ReceiveBuffers buffers_;
  std::vector<Sent> sent_;
  std::map<Way, int64_t> next_bytes_;  // of the first message of the next list that is sent; none: of the first list
  std::map<Way, Source> sources_;
};

}  // namespace fsdp::pipeline
