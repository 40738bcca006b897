// What recomputation keeps, how often it runs, and the errors that it finds.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/checkpointed.h"
#include "support/message_of.h"

namespace fsdp::checkpointed {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Recomputation, KeepsNoIntermediateResult) {
  Mlp mlp;
  std::vector<c10::weak_intrusive_ptr<at::StorageImpl>> storages;
  const auto function = [&](const Tensor& x) {
    const Tensor hidden = torch::gelu(mlp->up(x));
    storages.emplace_back(hidden.storage().getWeakStorageImpl());
    return mlp->down(hidden).sin();
  };
  const Tensor plain = function(input());
  EXPECT_FALSE(storages.back().expired());
  const Tensor y = activation_checkpoint(function, input());
  EXPECT_TRUE(storages.back().expired());
  y.sum().backward();
  EXPECT_EQ(storages.size(), 3u);
  EXPECT_TRUE(storages.back().expired());
}

TEST(Recomputation, EndsWithTheLastTensorThatIsSaved) {
  Mlp mlp;
  for (const bool stop_early : {true, false}) {
    int ends = 0;
    const auto function = [&](const Tensor& x) {
      const Tensor y = mlp(x).sin() + 1;
      ++ends;
      return y;
    };
    activation_checkpoint({.stop_early = stop_early}, function, input()).sum().backward();
    EXPECT_EQ(ends, stop_early ? 1 : 2);
  }
}

TEST(Recomputation, IsNoneWithoutGradientMode) {
  Mlp mlp;
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(activation_checkpoint(mlp, input()).requires_grad());
}

TEST(Recomputation, RunsOnceInEachBackwardOfARetainedGraph) {
  int runs = 0;
  Mlp mlp, plain;
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < mlp->parameters().size(); ++i) plain->parameters()[i].copy_(mlp->parameters()[i]);
  }
  mlp->eval(), plain->eval();
  const Tensor x = input(), same = input();
  const Tensor y = activation_checkpoint([&](const Tensor& a) { return ++runs, mlp(a).tanh(); }, x).pow(2).sum();
  const Tensor expected = plain(same).tanh().pow(2).sum();
  for (int i = 0; i < 3; ++i) {
    y.backward({}, /*retain_graph=*/true);
    expected.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(runs, 2 + i);
    EXPECT_TRUE(torch::equal(x.grad(), same.grad()));
  }
  // With respect to the input alone: what the parameters' gradients want is made again next time.
  EXPECT_TRUE(torch::equal(torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true)[0],
                           torch::autograd::grad({expected}, {same}, {}, /*retain_graph=*/true)[0]));
  y.backward();
  EXPECT_EQ(runs, 6);
}

TEST(Recomputation, HasSecondDerivatives) {
  const auto penalty = [](bool checkpointed) {
    torch::manual_seed(4);
    Mlp first, second;
    const Caller call(checkpointed ? std::optional(ActivationCheckpointOptions()) : std::nullopt);
    const Tensor x = input();
    const Tensor y = call(second, call(first, x)).pow(2).sum();
    const Tensor slope = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    (y + (slope.norm() - 1).pow(2)).backward();
    Tensors gradients{x.grad()};
    for (const Tensor& parameter : first->parameters()) gradients.push_back(parameter.grad());
    for (const Tensor& parameter : second->parameters()) gradients.push_back(parameter.grad());
    return gradients;
  };
  expect_equal(penalty(true), penalty(false));
}

TEST(Recomputation, NestsDeeply) {
  const auto gradient = [](bool checkpointed) {
    const Caller call(checkpointed ? std::optional(ActivationCheckpointOptions()) : std::nullopt);
    const std::function<Tensor(const Tensor&, int)> nest = [&](const Tensor& x, int depth) {
      return depth == 0 ? x.exp() : call(nest, x.sin() + x, depth - 1);
    };
    const Tensor x = input();
    nest(x, 40).sum().backward();
    return x.grad();
  };
  expect_equal({gradient(true)}, {gradient(false)});
}

// A product that was not kept would be made of other weights in the backward.
TEST(Recomputation, TakesTheProductsThatItKept) {
  const auto gradient = [](std::optional<KeptResults> keep) {
    const Tensor x = values_for(1, {3, 4}).requires_grad_(), w = values_for(2, {4, 5}).requires_grad_();
    const auto function = [](const Tensor& a, const Tensor& b) { return a.mm(b).tanh().exp(); };
    const Tensor y = keep ? activation_checkpoint({.keep = *keep}, function, x, w) : function(x, w);
    w.data_ptr<float>()[0] = 3;
    y.sum().backward();
    return w.grad();
  };
  const Tensor expected = gradient(std::nullopt);
  EXPECT_TRUE(torch::equal(gradient(KeptResults::Products), expected));
  EXPECT_FALSE(torch::equal(gradient(KeptResults::None), expected));
}

// The product is made again, of other weights, and nothing comes of it.
TEST(Recomputation, TakesTheResultsThatAFunctionChose) {
  const auto gradient = [](std::optional<std::string_view> kept) {
    const Tensor x = values_for(1, {3, 4}).requires_grad_(), w = values_for(2, {4, 5}).requires_grad_();
    const auto function = [](const Tensor& a, const Tensor& b) { return a.mm(b).tanh().exp(); };
    ActivationCheckpointOptions options{.keep = KeptResults::Products};
    options.keeps = [kept](std::string_view name) { return name == *kept; };
    const Tensor y = kept ? activation_checkpoint(options, function, x, w) : function(x, w);
    w.data_ptr<float>()[0] = 3;
    y.sum().backward();
    return w.grad();
  };
  const Tensor expected = gradient(std::nullopt);
  EXPECT_TRUE(torch::equal(gradient("aten::tanh"), expected));
  EXPECT_TRUE(torch::equal(gradient("aten::mm"), expected));
  EXPECT_FALSE(torch::equal(gradient("aten::exp"), expected));
}

// Attention has the tag of operators that draw random numbers, and draws none without dropout.
TEST(Recomputation, TakesTheAttentionThatAFunctionChose) {
  const auto gradient = [](std::optional<std::string_view> kept) {
    const Tensor x = values_for(1, {1, 2, 4, 8}).requires_grad_(), w = values_for(2, {8}).requires_grad_();
    const auto function = [](const Tensor& a, const Tensor& b) {
      return at::scaled_dot_product_attention(a, a, a, {}, 0.0, true).mul(b).exp();
    };
    ActivationCheckpointOptions options{.keep = KeptResults::Products};
    options.keeps = [kept](std::string_view name) { return name == *kept; };
    const Tensor y = kept ? activation_checkpoint(options, function, x, w) : function(x, w);
    x.data_ptr<float>()[0] = 3;
    y.sum().backward();
    return w.grad();
  };
  const Tensor expected = gradient(std::nullopt);
  EXPECT_TRUE(torch::equal(gradient("aten::_scaled_dot_product_flash_attention_for_cpu"), expected));
  EXPECT_FALSE(torch::equal(gradient("aten::exp"), expected));
}

// Were a draw left out of the second run, those behind it would be others.
TEST(Recomputation, DrawsAllRandomNumbersAgainWhateverIsKept) {
  const auto gradient = [](bool checkpointed) {
    torch::manual_seed(3);
    const Tensor x = values_for(1, {30, 4}).requires_grad_(), w = values_for(2, {4, 5}).requires_grad_();
    const auto function = [](const Tensor& a, const Tensor& b) {
      const Tensor noisy = torch::feature_dropout(a.mm(b).tanh(), 0.5, true) * torch::rand({30, 5});
      return torch::dropout(noisy.mm(b.t()), 0.5, true).exp() * torch::bernoulli(torch::full({30, 4}, 0.5));
    };
    ActivationCheckpointOptions options{.keep = KeptResults::Products};
    options.keeps = [](std::string_view) { return true; };
    (checkpointed ? activation_checkpoint(options, function, x, w) : function(x, w)).sum().backward();
    return std::vector<Tensor>{x.grad(), w.grad()};
  };
  expect_equal(gradient(true), gradient(false));
}

// What is kept must not be what others change.
TEST(Recomputation, DoesNotKeepAProductThatItReturns) {
  const auto gradient = [](bool checkpointed) {
    const Caller call(checkpointed ? std::optional(ActivationCheckpointOptions{.keep = KeptResults::Products})
                                   : std::nullopt);
    const Tensor x = values_for(1, {3, 4}).requires_grad_(), w = values_for(2, {4, 5}).requires_grad_();
    const auto function = [](const Tensor& a, const Tensor& b) {
      const Tensor product = a.mm(b);
      return std::pair(product, product.exp());
    };
    auto [y, z] = call(function, x, w);
    (y.mul_(0) + z).sum().backward();
    return w.grad();
  };
  expect_equal({gradient(true)}, {gradient(false)});
}

TEST(Recomputation, PutsBackWhatItsBuffersHeld) {
  const auto make = [] {
    torch::manual_seed(1);
    return torch::nn::BatchNorm1d(kWidth);
  };
  torch::nn::BatchNorm1d plain = make(), norm = make();
  const auto options = ActivationCheckpointOptions{.buffers = [norm] { return norm->buffers(); }};
  for (int step = 0; step < 2; ++step) {
    plain(input()).sin().sum().backward();
    activation_checkpoint(
        options, [norm](const Tensor& x) mutable { return norm(x).sin(); }, input())
        .sum()
        .backward();
  }
  for (const auto& buffer : plain->named_buffers()) {
    EXPECT_TRUE(torch::equal(norm->named_buffers()[buffer.key()], buffer.value())) << buffer.key();
  }
  EXPECT_TRUE(torch::equal(norm->weight.grad(), plain->weight.grad()));
}

TEST(Recomputation, FindsAnInputThatChanged) {
  Mlp mlp;
  Tensor x = input() * 2;
  const Tensor y = activation_checkpoint([&](const Tensor& a, int64_t) { return mlp(a); }, x, 1);
  x.add_(1);
  EXPECT_THAT(message_of<Error>([&] { y.sum().backward(); }),
              AllOf(HasSubstr("tensor 0 among the inputs was changed in place"), HasSubstr("found version 1"),
                    HasSubstr("expected 0"), HasSubstr("clone()")));
}

TEST(Recomputation, FindsAParameterThatChanged) {
  Mlp mlp;
  const Tensor y = activation_checkpoint(mlp, input());
  {
    const torch::NoGradGuard no_grad;
    mlp->norm->weight.add_(1);
  }
  EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("modified by an inplace operation"));
}

TEST(Recomputation, FindsThatTheFunctionDoesOtherThings) {
  Mlp mlp;
  int64_t width = kWidth, times = 1;
  torch::ScalarType dtype = torch::kFloat32;
  const auto make = [&] {
    const auto function = [&](const Tensor& x) {
      Tensor y = mlp(x).slice(1, 0, width).to(dtype);
      for (int64_t i = 0; i < times; ++i) y = y.sin();
      return y.sum();
    };
    return activation_checkpoint({.stop_early = false}, function, input());
  };
  const auto message = [&](const std::function<void()>& change) {
    width = kWidth, times = 2, dtype = torch::kFloat32;
    const Tensor y = make();
    change();
    return message_of<Error>([&] { y.backward(); });
  };
  EXPECT_THAT(message([&] { width = 5; }),
              AllOf(HasSubstr("is Float [2, 5] on cpu, expected Float [2, 8] on cpu"), HasSubstr("training mode")));
  EXPECT_THAT(message([&] { dtype = torch::kFloat64; }), HasSubstr("is Double [2, 8] on cpu, expected Float"));
  EXPECT_THAT(message([&] { times = 1; }), HasSubstr("tensors, expected"));
  EXPECT_THAT(message([&] { times = 3; }), HasSubstr("tensors, expected"));
  EXPECT_EQ(message([] {}), "no error");
}

TEST(Recomputation, LetsTheFunctionsErrorThrough) {
  bool fails = false;
  const auto function = [&](const Tensor& x) {
    if (fails) throw std::runtime_error("not again");
    return x.exp();
  };
  const Tensor y = activation_checkpoint(function, input());
  fails = true;
  EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("not again"));
  fails = false;
  const Tensor x = input();
  activation_checkpoint(function, x).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), x.exp()));
}

}  // namespace
}  // namespace fsdp::checkpointed
