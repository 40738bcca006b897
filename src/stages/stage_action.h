// An action: one thing that a rank does in a step of a pipeline. "2F0" is stage 2, forward, micro-batch 0.
//
// The text is that of PyTorch's torch.distributed.pipelining, so that either reads the other's files. The stage of a
// send is the sending one, and that of a receive the receiving one: both lie on the rank that acts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fsdp::stages {

// Stages and micro-batches have numbers below this one.
constexpr int kMostNumber = 1 << 20;

struct StageAction {
  enum class Kind {
    Idle,             // an empty cell of a grid: nothing
    Forward,          // 2F0
    Backward,         // 2B0: the gradients of the input and of the weights
    InputGradient,    // 2I0: the gradient of the input, for which the stage before waits
    WeightGradient,   // 2W0: the gradients of the weights
    SendForward,      // 2SEND_F0: the output of stage 2, to stage 3
    ReceiveForward,   // 3RECV_F0: the input of stage 3, from stage 2
    SendBackward,     // 3SEND_B0: the gradient of stage 3's input, to stage 2
    ReceiveBackward,  // 2RECV_B0: the gradient of stage 2's output, from stage 3
    Gather,           // 2UNSHARD: the stage's parameters begin to become full
    Release,          // 2RESHARD: they are shards again
    Reduce,           // 2REDUCE_GRAD: the gradients of all micro-batches are summed over the ranks that share the stage
  };
  static constexpr int kKinds = static_cast<int>(Kind::Reduce) + 1;

  Kind kind = Kind::Idle;
  int stage = -1;
  int micro_batch = -1;    // of a pass or a message; -1 otherwise
  bool with_next = false;  // runs at the same time as the rank's next action, as in PyTorch's DualPipeV

  bool operator==(const StageAction&) const = default;
};

// A pass: a computation of one stage on one micro-batch.
constexpr bool is_pass(StageAction::Kind kind) {
  return kind >= StageAction::Kind::Forward && kind <= StageAction::Kind::WeightGradient;
}
constexpr bool is_send(StageAction::Kind kind) {
  return kind == StageAction::Kind::SendForward || kind == StageAction::Kind::SendBackward;
}
constexpr bool is_receive(StageAction::Kind kind) {
  return kind == StageAction::Kind::ReceiveForward || kind == StageAction::Kind::ReceiveBackward;
}
constexpr bool is_message(StageAction::Kind kind) { return is_send(kind) || is_receive(kind); }
// The pass makes the gradient of the stage's input.
constexpr bool makes_input_gradient(StageAction::Kind kind) {
  return kind == StageAction::Kind::Backward || kind == StageAction::Kind::InputGradient;
}
// The pass adds to the gradients of the stage's weights, and is the micro-batch's last.
constexpr bool adds_gradients(StageAction::Kind kind) {
  return kind == StageAction::Kind::Backward || kind == StageAction::Kind::WeightGradient;
}
// The pass reads the stage's parameters. Gradients of weights are products of activations and gradients alone.
constexpr bool reads_parameters(StageAction::Kind kind) {
  return kind == StageAction::Kind::Forward || makes_input_gradient(kind);
}

// The other end of a message: that of 2SEND_F0 is 3RECV_F0.
StageAction other_end(const StageAction& message);

// "2F0"; "" for an empty cell.
std::string to_string(const StageAction& action);
// None if the text is no action.
std::optional<StageAction> action_of(std::string_view text);

}  // namespace fsdp::stages
