// A tensor's way from one rank to another over a Transport: its header, and its elements beside it.
//
// Both are sent at once, so the elements arrive while the receiver computes. The receiver compares the header with its
// own tensor. Contiguous CPU tensors. One thread at a time; the transport outlives it.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

#include "collectives/tensor_header.h"
#include "collectives/transport.h"

namespace fsdp::collectives {

class PairMessage {
 public:
  enum class Direction { Send, Receive };

  // Begins it.
  PairMessage(Transport& transport, const torch::Tensor& tensor, Direction direction, int peer, int tag);

  // Throws TransportFailure, or Error if the tensor at the other end has another shape or dtype.
  void wait();
  bool is_over() const;

 private:
  Transport* transport_;
  Direction direction_;
  int peer_, tag_;
  torch::Tensor tensor_;
  std::unique_ptr<TensorHeader> own_, theirs_;  // where the messages have their addresses
  std::unique_ptr<Message> header_, elements_;  // null: over
};

}  // namespace fsdp::collectives
