// Lists of tensors between two ranks. A message with their shapes goes ahead, so shapes may differ from micro-batch to
// micro-batch. A list uses `tag` and the next one (tags.h). Lists of one tag are taken in the order in which they were
// sent. For one thread.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "fsdp/pipeline.h"
#include "pipeline/receive_buffers.h"

namespace fsdp::pipeline {

inline constexpr int kMostTensors = 32;  // of a list

// A list that is on its way to this rank.
class Arrival {
 public:
  Arrival(World& axis, ReceiveBuffers& buffers, int peer, int tag);
  // Waits for it. Tensors that required gradients at the sender do so here. Undefined ones stay undefined.
  Tensors take();

 private:
  World* axis_;
  ReceiveBuffers* buffers_;
  int peer_, tag_;
  torch::Tensor description_;
  Work described_;
};

class Links {
 public:
  explicit Links(World axis) : axis_(std::move(axis)) {}

  // Begins to send the list. The tensors must not change until `finish`.
  void send(const Tensors& tensors, int peer, int tag);
  Arrival receive(int peer, int tag) { return Arrival(axis_, buffers_, peer, tag); }
  // Waits until all lists that were sent have left.
  void finish();

 private:
  struct Sent {
    torch::Tensor tensor;
    Work work;
  };
  void send_one(const torch::Tensor& tensor, int peer, int tag);

  World axis_;
  ReceiveBuffers buffers_;
  std::vector<Sent> sent_;
};

}  // namespace fsdp::pipeline
