// Recomputation against plain autograd, bit for bit: values, gradients and the random numbers that come afterwards.
#include <ATen/autocast_mode.h>
#include <fsdp/fsdp.h>

#include <functional>
#include <map>

#include "api/checkpointed.h"

namespace fsdp::checkpointed {
namespace {

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
  SCOPED_TRACE("all results kept");
  const auto all = [](std::string_view) { return true; };
  expect_equal(
      values_and_gradients(model, Caller(ActivationCheckpointOptions{.keep = KeptResults::Products, .keeps = all})),
      expected);
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const auto& one : cases()) names.push_back(one.first);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Of, ActivationCheckpoint, ::testing::ValuesIn(names_of_cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace fsdp::checkpointed
