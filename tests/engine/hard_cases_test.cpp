// Unusual ways to run a model: two sharded ranks that see the same batch end with the bits of one plain process.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using torch::Tensor;

struct Net : torch::nn::Module {
  Net()
      : table(register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(7, 4).sparse(true)))),
        convolution(register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).padding(1)))),
        head(register_module("head", torch::nn::Linear(6, 5))) {
    convolution->weight.set_data(convolution->weight.to(torch::MemoryFormat::ChannelsLast));
  }

  Tensor image() { return table(torch::arange(6).view({1, 2, 3}) % 7).permute({0, 3, 1, 2}); }
  Tensor top(const Tensor& image) { return head(torch::relu(convolution(image)).mean({2, 3})).square().sum(); }
  Tensor loss() { return top(image()); }

  torch::nn::Embedding table;
  torch::nn::Conv2d convolution;
  torch::nn::Linear head;
};

std::shared_ptr<Net> make_net() {
  torch::manual_seed(5);
  return std::make_shared<Net>();
}

// The gradients' sum over two equal micro-batches is twice a plain gradient, and their mean its very bits.
void expect_gradients_of(ShardedModel& sharded, const torch::nn::Module& plain) {
  sharded.clip_grad_norm_(std::numeric_limits<double>::infinity());  // closes
  const auto expected = plain.named_parameters();
  for (const ShardedParameter& parameter : sharded.parameters()) {
    const Tensor whole = expected[parameter.name];
    const Tensor& piece = parameter.piece;
    ASSERT_EQ(piece.grad().defined(), whole.grad().defined()) << parameter.name;
    if (!whole.grad().defined()) continue;
    // In the order of the parameter's memory, which channels-last changes.
    const Tensor gradient = whole.grad().is_sparse() ? whole.grad().to_dense() : whole.grad();
    const Tensor flat =
        torch::empty_strided(whole.sizes(), whole.strides()).copy_(gradient).as_strided({whole.numel()}, {1});
    EXPECT_TRUE(torch::equal(piece.grad(), flat.slice(0, parameter.offset, parameter.offset + piece.numel())))
        << parameter.name;
  }
}

using ZeroGrad = std::function<void()>;
using Backward = std::function<void(Net& net, const ZeroGrad& zero_grad)>;

// Runs `backward` on a plain net and on a sharded one, and compares the gradients.
void expect_same(
    const Backward& backward, const std::function<void(Net&)>& prepare = [](Net&) {}) {
  run_ranks(2, [&](World& world) {
    auto plain = make_net(), net = make_net();
    prepare(*plain);
    prepare(*net);
    auto sharded = shard(*net, world, {.units = units_of<torch::nn::Conv2dImpl, torch::nn::LinearImpl>()});
    for (int step = 0; step < 3; ++step) {  // recorded, then planned
      plain->zero_grad();
      backward(*plain, [&] { plain->zero_grad(); });
      backward(*net, [&] { sharded.zero_grad(); });
      expect_gradients_of(sharded, *plain);
      sharded.zero_grad();
    }
  });
}

TEST(HardCases, ChannelsLastWeightsAndSparseGradients) {
  expect_same([](Net& net, const ZeroGrad&) { net.loss().backward(); });
}

// The result of such a layer has three or more dimensions and a bias: a view, in LibTorch.
TEST(HardCases, InPlaceOperatorsOnTheResultsOfLinearLayers) {
  expect_same([](Net& net, const ZeroGrad&) {
    const Tensor pixels = net.convolution(net.image()).permute({0, 2, 3, 1}).contiguous();
    const Tensor first = torch::linear(pixels, net.head->weight, net.head->bias).mul_(0.5).relu_();
    const Tensor second = net.head(pixels).masked_fill_(first.detach() > 0.1, 2.0);
    (first.square().sum() + second.square().sum()).backward();
  });
}

TEST(HardCases, AGraphThatIsRetained) {
  expect_same([](Net& net, const ZeroGrad&) {
    auto loss = net.loss();
    loss.backward({}, /*retain_graph=*/true);
  });
}

TEST(HardCases, HooksOnParametersThatWereThereBefore) {
  expect_same([](Net& net, const ZeroGrad&) { net.loss().backward(); },
              [](Net& net) { net.head->weight.register_hook([](const Tensor& gradient) { return 2 * gradient; }); });
}

TEST(HardCases, FrozenAndUnfrozen) {
  expect_same([](Net& net, const ZeroGrad&) {
    const bool was_frozen = !net.convolution->weight.requires_grad();
    net.convolution->weight.set_requires_grad(was_frozen);
    net.loss().backward();
  });
}

// Activation checkpointing: the forward keeps no graph, the backward runs it again.
struct Recompute : torch::autograd::Function<Recompute> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& image, Net* net) {
    context->save_for_backward({image});
    context->saved_data["net"] = reinterpret_cast<int64_t>(net);
    torch::NoGradGuard no_grad;
    return net->top(image);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* net = reinterpret_cast<Net*>(context->saved_data["net"].toInt());
    Tensor image = context->get_saved_variables()[0].detach().requires_grad_();
    {
      torch::AutoGradMode grad(true);
      net->top(image).backward(gradients[0]);
    }
    return {image.grad(), Tensor()};
  }
};

TEST(HardCases, ABackwardInsideABackward) {
  expect_same([](Net& net, const ZeroGrad&) { Recompute::apply(net.image(), &net).backward(); });
}

// The middle one of three uses of a weight is run again inside the backward of the others.
TEST(HardCases, ABackwardInsideOneThatUsesTheWeightAsWell) {
  struct Again : torch::autograd::Function<Again> {
    static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, torch::nn::LinearImpl* layer) {
      context->save_for_backward({x});
      context->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
      torch::NoGradGuard no_grad;
      return layer->forward(x);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
      auto* layer = reinterpret_cast<torch::nn::LinearImpl*>(context->saved_data["layer"].toInt());
      Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
      {
        torch::AutoGradMode grad(true);
        layer->forward(x).backward(gradients[0]);
      }
      return {x.grad(), Tensor()};
    }
  };
  run_ranks(2, [](World& world) {
    for (const int64_t others : {0, 1, 8}) {
      for (const int inner : {1, 3}) {
        const auto make = [&] {
          torch::manual_seed(6);
          torch::nn::Sequential net(torch::nn::Linear(9, 9));
          for (int64_t i = 0; i < others; ++i) net->push_back(torch::nn::Linear(9, 9));
          return net;
        };
        const auto loss = [&](torch::nn::Sequential& net) {
          const auto layer = net->ptr<torch::nn::LinearImpl>(0);
          Tensor x = net->forward(torch::linspace(-1, 1, 36).view({4, 9}));
          for (int i = 0; i < inner; ++i) x = Again::apply(torch::tanh(x), layer.get());
          return layer->forward(torch::tanh(x)).square().sum();
        };
        torch::nn::Sequential plain = make(), net = make();
        auto sharded = shard(*net, world, {.units = one_unit()});
        for (int step = 0; step < 3; ++step) {
          SCOPED_TRACE(::testing::Message() << others << " other layers, " << inner << " times, step " << step);
          plain->zero_grad();
          loss(plain).backward();
          loss(net).backward();
          // The first backward is recorded: it cannot know that a second gradient of the weight will come.
          if (step > 0) expect_gradients_of(sharded, *plain);
          sharded.zero_grad();
        }
      }
    }
  });
}

TEST(HardCases, ABackwardThatThrowsAndTheNextOne) {
  expect_same([](Net& net, const ZeroGrad& zero_grad) {
    auto image = net.image();
    auto failing = net.top(image), next = net.loss();
    image.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
    EXPECT_THROW(failing.backward(), std::runtime_error);
    zero_grad();  // what came before it threw
    next.backward();
  });
}

TEST(HardCases, AGradientThatIsAParameter) {
  struct ReturnsAnother : torch::autograd::Function<ReturnsAnother> {
    static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& weight, const Tensor& other) {
      context->save_for_backward({other});
      return weight.sum();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list) {
      return {context->get_saved_variables()[0], Tensor()};
    }
  };
  expect_same(
      [](Net& net, const ZeroGrad&) { ReturnsAnother::apply(net.head->bias, net.head->bias.detach()).backward(); });
}

}  // namespace
}  // namespace fsdp
