#include "support/unusual_models.h"

#include <tuple>

namespace fsdp::testing_models {

using torch::Tensor;

namespace {

struct AdaptedImpl : torch::nn::Module {
  AdaptedImpl()
      : base(register_module("base", torch::nn::Linear(kWidth, kWidth))),
        down(register_parameter("down", torch::randn({kRank, kWidth}) / 8)),
        up(register_parameter("up", torch::zeros({kWidth, kRank}))) {
    for (auto& parameter : base->parameters()) parameter.set_requires_grad(false);
  }
  // y = W x + B A x, of which A and B train.
  Tensor forward(const Tensor& x) {
    return x + torch::tanh(base->forward(x) + torch::linear(torch::linear(x, down), up));
  }

  static constexpr int64_t kWidth = 32, kRank = 2;
  torch::nn::Linear base;
  Tensor down, up;
};
TORCH_MODULE(Adapted);

struct TwoDtypesImpl : torch::nn::Module {
  TwoDtypesImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})))),
        linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {
    linear->to(torch::kBFloat16);
  }
  Tensor forward(const Tensor& x) { return x + torch::tanh(linear(norm(x).to(torch::kBFloat16))).to(torch::kFloat32); }

  static constexpr int64_t kWidth = 15;
  torch::nn::LayerNorm norm;
  torch::nn::Linear linear;
};
TORCH_MODULE(TwoDtypes);

struct SmallImpl : torch::nn::Module {
  SmallImpl()
      : scale(register_parameter("scale", torch::full({}, 1.5))),
        empty(register_parameter("empty", torch::zeros({0, 3}))),
        shift(register_parameter("shift", torch::linspace(0, 1, 3))) {}
  Tensor forward(const Tensor& x) { return torch::tanh(x * scale + shift + empty.sum()); }

  Tensor scale, empty, shift;
};
TORCH_MODULE(Small);

struct Outputs {
  Tensor main;
  std::tuple<Tensor, Tensor> nested;
};

struct HeadsImpl : torch::nn::Module {
  HeadsImpl()
      : body(register_module("body", torch::nn::Sequential(linear(), linear(), linear()))),
        heads(register_module("heads", torch::nn::ModuleList(linear(), linear(), linear()))),
        even(register_parameter("even", torch::ones({kWidth}))),
        odd(register_parameter("odd", torch::ones({kWidth}))) {}
  static torch::nn::Linear linear() { return torch::nn::Linear(kWidth, kWidth); }
  Tensor head(size_t i, const Tensor& x) { return heads->at<torch::nn::LinearImpl>(i).forward(x); }
  Outputs forward(const Tensor& input) {
    const Tensor x = torch::tanh(body->forward(input));
    return {head(0, x), {head(1, x), head(2, x)}};
  }

  static constexpr int64_t kWidth = 9;
  torch::nn::Sequential body;
  torch::nn::ModuleList heads;
  Tensor even, odd;
};

// Blocks in a row, the mean square of whose output is the loss.
TestModel in_a_row(torch::nn::Sequential blocks, std::vector<int64_t> input) {
  return {blocks.ptr(), [blocks, input = std::move(input)](int64_t b) mutable {
            return blocks->forward(values_for(b, input)).pow(2).mean();
          }};
}

using HeadsLoss = std::function<Tensor(HeadsImpl& net, const Tensor& input, int64_t micro_batch)>;

TestModel heads_with(const HeadsLoss& loss) {
  torch::manual_seed(9);
  auto net = std::make_shared<HeadsImpl>();
  return {net, [net, loss](int64_t b) { return loss(*net, values_for(b, {4, HeadsImpl::kWidth}), b); }};
}

}  // namespace

TestModel make_adapters(int64_t blocks) {
  torch::manual_seed(6);
  torch::nn::Sequential row;
  for (int64_t i = 0; i < blocks; ++i) row->push_back(Adapted());
  return in_a_row(row, {3, AdaptedImpl::kWidth});
}

TestModel make_several_dtypes() {
  torch::manual_seed(7);
  return in_a_row(torch::nn::Sequential(TwoDtypes(), TwoDtypes(), TwoDtypes()), {4, TwoDtypesImpl::kWidth});
}

TestModel make_small() {
  torch::nn::Sequential row{Small(), Small(), Small()};
  row->register_parameter("only", torch::zeros({0}));
  return in_a_row(row, {4, 3});
}

TestModel make_channels_last() {
  torch::manual_seed(12);
  torch::nn::Sequential row;
  for (int64_t channels : {3, 5, 9}) {
    auto layer = torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels == 9 ? 3 : 2 * channels - 1, 3));
    layer->weight.set_data(layer->weight.to(torch::MemoryFormat::ChannelsLast));
    row->push_back(layer);
  }
  return {row.ptr(), [row](int64_t b) mutable {
            const Tensor image = values_for(b, {2, 3, 8, 8}).to(torch::MemoryFormat::ChannelsLast);
            return row->forward(image).pow(2).mean();
          }};
}

TestModel make_nested_outputs() {
  return heads_with([](HeadsImpl& net, const Tensor& input, int64_t) {
    const Outputs outputs = net.forward(input);
    return (outputs.main * net.even * net.odd * std::get<0>(outputs.nested) * std::get<1>(outputs.nested)).mean();
  });
}

TestModel make_unused_on_all_ranks() {
  return heads_with([](HeadsImpl& net, const Tensor& input, int64_t) {
    return net.head(2, net.head(0, net.body->forward(input)) * net.even * net.odd).pow(2).mean();
  });
}

TestModel make_unused_on_some_ranks() {
  return heads_with([](HeadsImpl& net, const Tensor& input, int64_t b) {
    const Tensor gain = b % 2 == 0 ? net.even : net.odd;
    const Outputs outputs = net.forward(input);
    return (outputs.main * gain * std::get<0>(outputs.nested) * std::get<1>(outputs.nested)).mean();
  });
}

}  // namespace fsdp::testing_models
