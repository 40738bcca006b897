// Recomputation against plain autograd, bit for bit: values, gradients and the random numbers that come afterwards.
#include <ATen/autocast_mode.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "support/message_of.h"
#include "support/models.h"

namespace fsdp::checkpointed {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::values_for;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kWidth = 8;

// Norm, linear, GELU, dropout, linear, and the input around them.
struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(int64_t width = kWidth)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 3 * width))),
        drop(register_module("drop", torch::nn::Dropout(0.3))),
        down(register_module("down", torch::nn::Linear(3 * width, width))) {}
  Tensor forward(const Tensor& x) { return x + down(drop(torch::gelu(up(norm(x))))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up;
  torch::nn::Dropout drop;
  torch::nn::Linear down;
};
TORCH_MODULE(Mlp);

// How a part of a case's model is called: as it is, or checkpointed.
class Caller {
 public:
  explicit Caller(std::optional<ActivationCheckpointOptions> options) : options_(std::move(options)) {}
  template <typename Function, typename... Inputs>
  auto operator()(Function function, const Inputs&... inputs) const {
    if (!options_) return std::invoke(function, inputs...);
    return activation_checkpoint(*options_, function, inputs...);
  }

 private:
  std::optional<ActivationCheckpointOptions> options_;
};

// A case: of a leaf input and two modules, calls parts of its model and returns what is summed up.
using Model = std::function<Tensor(const Caller& call, const Tensor& x, Mlp& first, Mlp& second)>;

Tensors values_and_gradients(const Model& model, const Caller& call) {
  torch::manual_seed(3);
  Mlp first, second;
  second->up->weight.set_requires_grad(false);
  const Tensor x = values_for(1, {2, 3, kWidth}).requires_grad_();
  const Tensor loss = model(call, x, first, second);
  Tensors all{loss.detach(), torch::rand(3)};
  loss.backward();
  all.push_back(torch::rand(3));  // the backward has drawn none
  all.push_back(x.grad());
  for (Mlp& mlp : {std::ref(first), std::ref(second)}) {
    for (const Tensor& parameter : mlp->parameters()) all.push_back(parameter.grad());
  }
  return all;
}

void expect_equal(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    if (found[i].defined()) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i << found[i] << expected[i];
  }
}

const std::map<std::string, Model>& cases() {
  static const std::map<std::string, Model> all{
      {"OneBlock", [](auto& call, auto& x, auto& first, auto&) { return call(first, x).pow(2).sum(); }},
      {"OneAfterTheOther",
       [](auto& call, auto& x, auto& first, auto& second) { return call(second, call(first, x)).pow(2).sum(); }},
      {"OneTwice",
       [](auto& call, auto& x, auto& first, auto&) { return call(first, call(first, x).tanh()).pow(2).sum(); }},
      {"Nested",
       [](auto& call, auto& x, auto& first, auto& second) {
         const auto inner = [&](const Tensor& y) { return call(second, call(first, y.tanh()).exp()); };
         return call([&, inner](const Tensor& y) { return call(inner, y * 2).sin() * call(first, y); }, x).pow(2).sum();
       }},
      {"AnInputWithoutGradient", [](auto& call, auto& x, auto& first,
                                    auto& second) { return call(second, call(first, x.detach())).pow(2).sum(); }},
      {"SeveralInputs",
       [](auto& call, auto& x, auto& first, auto&) {
         const auto function = [&](const Tensor& a, double factor, const Tensor& none, const std::optional<Tensor>& b,
                                   const Tensors& more, const std::pair<Tensor, int64_t>& pair) {
           EXPECT_FALSE(none.defined());
           return (first(a) * factor + b->exp() * more.at(1)).select(1, pair.second) * pair.first;
         };
         return call(function, x * 2, 0.5, Tensor(), std::optional<Tensor>(x.sin()), Tensors{x, x.cos(), x.detach()},
                     std::pair(x.mean().detach(), int64_t{1}))
             .sum();
       }},
      {"SeveralOutputs",
       [](auto& call, auto& x, auto& first, auto&) {
         const auto function = [&](const Tensor& a) {
           const Tensor y = first(a);
           return std::tuple(y, y.detach().argmax(-1), y.exp(), Tensors{a, y.sigmoid()});
         };
         const auto [y, indices, exponentials, more] = call(function, x * 1);
         EXPECT_FALSE(indices.requires_grad());
         return (y.gather(-1, indices.unsqueeze(-1)) * more[1]).sum() + more[0].pow(3).sum();  // one is not used
       }},
      {"AParameterAsInput",
       [](auto& call, auto& x, auto& first, auto&) {
         return call([](const Tensor& a, const Tensor& w) { return torch::linear(a.tanh(), w).exp(); }, x,
                     first->up->weight)
             .sum();
       }},
      {"AViewOfAnInput",
       [](auto& call, auto& x, auto&, auto&) {
         return call([](const Tensor& a) { return a.transpose(0, 1); }, x * 2).pow(2).sum();
       }},
      {"ABackwardInside",
       [](auto& call, auto& x, auto& first, auto&) {
         const auto slope = [&](const Tensor& a) {
           const Tensor y = first(a.tanh()).pow(2);
           return torch::autograd::grad({y.sum()}, {a}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0].pow(2);
         };
         return call(slope, x).sum();
       }},
      {"InPlaceInside",
       [](auto& call, auto& x, auto& first, auto&) {
         return call(
                    [&](const Tensor& a) {
                      Tensor y = first->up(a);
                      y = first->down(y.add_(1).relu_());
                      return y.mul_(2).sigmoid();
                    },
                    x)
             .sum();
       }},
      {"Attention",
       [](auto& call, auto& x, auto& first, auto&) {
         return call(
                    [&](const Tensor& a) {
                      const auto parts = first->up(a).unsqueeze(1).chunk(3, -1);
                      return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true).exp();
                    },
                    x)
             .sum();
       }},
      {"Autocast",
       [](auto& call, auto& x, auto& first, auto&) {
         at::autocast::set_autocast_enabled(torch::kCPU, true);
         const Tensor y = call(first, x);
         at::autocast::clear_cache();
         at::autocast::set_autocast_enabled(torch::kCPU, false);
         return y.to(torch::kFloat32).pow(2).sum();
       }},
  };
  return all;
}

class ActivationCheckpoint : public ::testing::TestWithParam<std::string> {};

TEST_P(ActivationCheckpoint, HasTheBitsOfPlainAutograd) {
  const Model& model = cases().at(GetParam());
  const Tensors expected = values_and_gradients(model, Caller(std::nullopt));
  for (const KeptResults keep : {KeptResults::None, KeptResults::Products}) {
    for (const bool stop_early : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "products kept " << (keep == KeptResults::Products) << ", stops early "
                                        << stop_early);
      expect_equal(
          values_and_gradients(model, Caller(ActivationCheckpointOptions{.keep = keep, .stop_early = stop_early})),
          expected);
    }
  }
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const auto& one : cases()) names.push_back(one.first);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Of, ActivationCheckpoint, ::testing::ValuesIn(names_of_cases()),
                         [](const auto& info) { return info.param; });

Tensor input() { return values_for(1, {2, kWidth}).requires_grad_(); }

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

// Two inputs, and a default that a Recomputed does not have.
struct PairImpl : torch::nn::Module {
  explicit PairImpl(int64_t width) : norm(register_module("norm", torch::nn::BatchNorm1d(width))) {
    linear = register_module("linear", torch::nn::Linear(width, width));
  }
  std::tuple<Tensor, Tensor> forward(Tensor x, const Tensor& y, int64_t times = 1) {
    x = norm(linear(x)) * times;
    return {x.exp(), y.sin()};
  }
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Pair);

template <typename Holder>
Holder seeded(int64_t width = kWidth) {
  torch::manual_seed(5);
  return Holder(width);
}

TEST(RecomputedModule, IsItsImplCheckpointed) {
  Pair plain = seeded<Pair>();
  Recomputed<PairImpl> again = seeded<Recomputed<PairImpl>>();
  EXPECT_EQ(again->named_parameters().keys(), plain->named_parameters().keys());
  EXPECT_NE(dynamic_cast<PairImpl*>(again.get()), nullptr);
  const Tensor x = input(), same = input();
  const auto [a, b] = plain(x, x, 2);
  const auto [c, d] = again(same, same, 2);
  EXPECT_TRUE(torch::equal(a, c) && torch::equal(b, d));
  (a * b).sum().backward();
  (c * d).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), same.grad()));
  for (const auto& one : plain->named_parameters())
    EXPECT_TRUE(torch::equal(one.value().grad(), again->named_parameters()[one.key()].grad())) << one.key();
  for (const auto& one : plain->named_buffers())
    EXPECT_TRUE(torch::equal(one.value(), again->named_buffers()[one.key()])) << one.key();
}

TEST(RecomputedModule, LivesInContainers) {
  const auto gradient = [](torch::nn::Module& module, const Tensor& x, const Tensor& y) {
    y.sin().sum().backward();
    Tensors gradients{x.grad()};
    for (const Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad());
    return gradients;
  };
  torch::nn::Sequential plain(seeded<Mlp>(), torch::nn::Tanh()),
      sequence(seeded<Recomputed<MlpImpl>>(), torch::nn::Tanh());
  plain->eval(), sequence->eval();
  Tensor x = input(), same = input();
  expect_equal(gradient(*sequence, x, sequence->forward(x)), gradient(*plain, same, plain->forward(same)));

  torch::nn::AnyModule any(seeded<Recomputed<MlpImpl>>());
  EXPECT_NO_THROW(any.get<RecomputedImpl<MlpImpl>>());
  EXPECT_EQ(any.forward(input()).sizes(), input().sizes());

  torch::nn::ModuleList list(seeded<Recomputed<MlpImpl>>(), seeded<Mlp>());
  auto* block = list[0]->as<Recomputed<MlpImpl>>();
  ASSERT_NE(block, nullptr);
  block->set_recomputation({.keep = KeptResults::Products});
  EXPECT_EQ(list[1]->as<Recomputed<MlpImpl>>(), nullptr);
  EXPECT_THAT(units_of<MlpImpl>().choose(*list), ::testing::ElementsAre("0", "1"));
}

// The graph keeps the module.
TEST(RecomputedModule, MayGoBeforeTheBackward) {
  Tensor x = input(), y;
  {
    Recomputed<MlpImpl> mlp;
    y = mlp(x);
  }
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace fsdp::checkpointed
