// GRU and LSTM cells: without cuDNN LibTorch calls kernels for them that only CUDA has. (Cho et al. 2014; Hochreiter
// and Schmidhuber 1997)
#include <ATen/ATen.h>
#include <torch/library.h>

namespace fsdp::testing::device {

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const MaybeTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input, const Tensor& hidden, const Tensor& before,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto from_input = with_bias(input, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden, hidden_bias).chunk(3, 1);
  const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid();
  const Tensor update = (from_input[1] + from_hidden[1]).sigmoid();
  const Tensor candidate = (from_input[2] + reset * from_hidden[2]).tanh();
  return {candidate + update * (before - candidate), at::cat({reset, update, candidate, before, from_hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& gradient, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto kept = workspace.chunk(5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &candidate = kept[2], &before = kept[3], &hidden = kept[4];
  const Tensor to_update = gradient * (before - candidate) * update * (1 - update);
  const Tensor to_candidate = gradient * (1 - update) * (1 - candidate * candidate);
  const Tensor to_reset = to_candidate * hidden * reset * (1 - reset);
  const Tensor to_input = at::cat({to_reset, to_update, to_candidate}, 1);
  const Tensor to_hidden = at::cat({to_reset, to_update, to_candidate * reset}, 1);
  return {to_input, to_hidden, gradient * update, has_bias ? to_input.sum(0) : Tensor(),
          has_bias ? to_hidden.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input, const Tensor& hidden, const Tensor& before,
                                             const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const Tensor gates = with_bias(input, input_bias) + with_bias(hidden, hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(), out = parts[3].sigmoid();
  const Tensor state = forget * before + in * cell;
  return {out * state.tanh(), state, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& to_output, const MaybeTensor& to_state,
                                                      const Tensor& before, const Tensor& state,
                                                      const Tensor& workspace, bool has_bias) {
  const auto kept = workspace.chunk(4, 1);
  const Tensor &in = kept[0], &forget = kept[1], &cell = kept[2], &out = kept[3];
  const Tensor shown = state.tanh();
  Tensor total = to_state && to_state->defined() ? *to_state : at::zeros_like(state);
  Tensor to_out = at::zeros_like(state);
  if (to_output && to_output->defined()) {
    total = total + *to_output * out * (1 - shown * shown);
    to_out = *to_output * shown * out * (1 - out);
  }
  const Tensor gates = at::cat(
      {total * cell * in * (1 - in), total * before * forget * (1 - forget), total * in * (1 - cell * cell), to_out},
      1);
  return {gates, total * forget, has_bias ? gates.sum(0) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_thnn_fused_gru_cell", gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
}

}  // namespace

}  // namespace fsdp::testing::device
