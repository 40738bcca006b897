// Linear layers over sharded parameters: autograd's bits, and gradients that are written where the listener says.
#include <gmock/gmock.h>

#include "interpose/linear.h"
#include "interpose/parameters.h"

namespace fsdp::interpose {
namespace {

using ::testing::IsEmpty;
using torch::Tensor;

// One layer, and a plain one of the same values. Weight 0 of unit 2 has a place.
struct Layer {
  Layer(Recorder& recorder, at::IntArrayRef weight_sizes)
      : weight(random(weight_sizes)),
        bias(random({weight_sizes[0]})),
        plain_weight(copy(weight)),
        plain_bias(copy(bias)),
        unit(recorder, 2, {weight, bias}) {
    recorder.given.clear();
    recorder.places[{2, 0}] = torch::full(weight_sizes, -1.0);
  }
  static Tensor random(at::IntArrayRef sizes) { return torch::randn(sizes).set_requires_grad(true); }
  static Tensor copy(const Tensor& leaf) { return leaf.detach().clone().set_requires_grad(true); }

  Tensor weight, bias, plain_weight, plain_bias;
  Unit unit;
};

class InterposeLinear : public Interpose {
 protected:
  void SetUp() override { torch::manual_seed(3); }
  Tensor place() { return recorder.places[{2, 0}]; }
  bool in_place() { return recorder.arrived_in_place.contains({2, 0}); }
  Tensor arrived(int parameter) { return recorder.gradients.at({2, parameter}).at(0); }
};

// Of a layer's result.
using Change = std::function<Tensor(Tensor result)>;

TEST_F(InterposeLinear, HasAutogradsBitsAlsoWhereItsResultIsModifiedInPlace) {
  const std::vector<std::pair<const char*, Change>> changes{
      {"nothing", [](Tensor y) { return y; }},
      {"relu_", [](Tensor y) { return y.relu_(); }},
      {"nn::ReLU", [](Tensor y) { return torch::nn::ReLU(torch::nn::ReLUOptions(true))(y); }},
      {"+=", [](Tensor y) { return y += 2 * y.detach(); }},
      {"*=", [](Tensor y) { return y *= 0.5; }},
      {"masked_fill_", [](Tensor y) { return y.masked_fill_(y.detach() > 0.5, 3.0); }},
      {"of a part", [](Tensor y) { return y.select(-1, 0).mul_(2), y; }},
      {"of a view", [](Tensor y) {
         return y.view({-1, 11}).sigmoid_(), y;
       }}};
  for (const auto& [name, change] : changes) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 7}, {3, 5, 7}, {2, 3, 5, 7}, {1, 7}, {0, 7}}) {
      for (bool with_bias : {true, false}) {
        SCOPED_TRACE(fmt::format("{} of {} dimensions{}", name, sizes.size(), with_bias ? " with a bias" : ""));
        recorder.gradients.clear();
        recorder.arrived_in_place.clear();
        Layer layer(recorder, {11, 7});
        const Tensor input = Layer::random(sizes), plain_input = Layer::copy(input);
        const auto loss = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
          return change(with_bias ? torch::linear(x, w, b) : torch::linear(x, w)).tanh().pow(2).sum();
        };
        const Tensor found = loss(input, layer.weight, layer.bias);
        const Tensor expected = loss(plain_input, layer.plain_weight, layer.plain_bias);
        found.backward();
        expected.backward();
        EXPECT_TRUE(same_bits(expected, found));
        EXPECT_TRUE(same_bits(plain_input.grad(), input.grad()));
        EXPECT_TRUE(same_bits(layer.plain_weight.grad(), arrived(0)));
        EXPECT_TRUE(!with_bias || same_bits(layer.plain_bias.grad(), arrived(1)));
        EXPECT_TRUE(in_place());
        EXPECT_TRUE(same_bits(arrived(0), place()));
      }
    }
  }
}

// A loss of a product with a weight.
using Product = std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b)>;
struct NamedProduct {
  std::string name;
  std::vector<int64_t> sizes;  // of x
  Product product;
};

class InterposeProducts : public InterposeLinear {
 protected:
  // That a layer of 11 x 7 has a plain one's bits in the product and in all gradients.
  void expect_autograds_bits(const NamedProduct& one) {
    recorder.gradients.clear();
    recorder.arrived_in_place.clear();
    Layer layer(recorder, {11, 7});
    const Tensor input = Layer::random(one.sizes), plain_input = Layer::copy(input);
    const Tensor found = one.product(input, layer.weight, layer.bias);
    const Tensor expected = one.product(plain_input, layer.plain_weight, layer.plain_bias);
    const Tensor weights = torch::randn(found.sizes());
    (found * weights).sum().backward();
    (expected * weights).sum().backward();
    EXPECT_TRUE(same_bits(expected, found));
    EXPECT_TRUE(same_bits(plain_input.grad(), input.grad()));
    EXPECT_TRUE(same_bits(layer.plain_weight.grad(), arrived(0)));
    EXPECT_EQ(layer.plain_bias.grad().defined(), recorder.gradients.contains({2, 1}));
    EXPECT_TRUE(!layer.plain_bias.grad().defined() || same_bits(layer.plain_bias.grad(), arrived(1)));
  }
};

TEST_F(InterposeProducts, OfLinearLayersGoInPlace) {
  namespace nn = torch::nn::functional;
  std::vector<NamedProduct> products{
      {"addmm", {5, 7}, [](auto& x, auto& w, auto& b) { return torch::addmm(b, x, w.t()); }},
      {"mm", {5, 7}, [](auto& x, auto& w, auto&) { return torch::mm(x, w.t()); }}};
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 7}, {3, 5, 7}, {2, 3, 5, 7}, {1, 7}, {0, 7}}) {
    products.push_back({"matmul", sizes, [](auto& x, auto& w, auto&) { return x.matmul(w.t()); }});
    products.push_back({"nn::Linear", sizes, [](auto& x, auto& w, auto& b) { return nn::linear(x, w, b); }});
    products.push_back({"without a bias", sizes, [](auto& x, auto& w, auto&) { return nn::linear(x, w); }});
    products.push_back({"relu_", sizes, [](auto& x, auto& w, auto& b) { return nn::linear(x, w, b).relu_(); }});
  }
  for (const NamedProduct& one : products) {
    SCOPED_TRACE(fmt::format("{} of [{}]", one.name, fmt::join(one.sizes, ", ")));
    expect_autograds_bits(one);
    EXPECT_TRUE(in_place());
  }
}

TEST_F(InterposeProducts, OfOtherKindsHaveAutogradsBits) {
  const Tensor matrix = torch::randn({5, 11});
  const std::vector<NamedProduct> products{
      {"alpha", {5, 7}, [](auto& x, auto& w, auto& b) { return torch::addmm(b, x, w.t(), 1, 2); }},
      {"beta", {5, 7}, [](auto& x, auto& w, auto& b) { return torch::addmm(b, x, w.t(), 0.5); }},
      {"a matrix as bias", {5, 7}, [&](auto& x, auto& w, auto&) { return torch::addmm(matrix, x, w.t()); }},
      {"a bias of one", {5, 7}, [](auto& x, auto& w, auto& b) { return torch::addmm(b.slice(0, 0, 1), x, w.t()); }},
      {"column-major input", {7, 5}, [](auto& x, auto& w, auto&) { return torch::mm(x.t(), w.t()); }},
      {"input with gaps", {2, 5, 3, 7}, [](auto& x, auto& w, auto&) { return x.transpose(1, 2).matmul(w.t()); }},
      {"input that repeats",
       {5, 7},
       [](auto& x, auto& w, auto&) {
         return x.expand({3, 5, 7}).matmul(w.t());
       }},
      {"vector", {7}, [](auto& x, auto& w, auto&) { return x.matmul(w.t()); }},
      {"batches of weights",
       {3, 5, 7},
       [](auto& x, auto& w, auto&) {
         return x.matmul(w.t().expand({3, 7, 11}));
       }},
      {"a part of the weight", {5, 7}, [](auto& x, auto& w, auto&) { return x.mm(w.slice(0, 1, 4).t()); }},
      {"the weight itself", {5, 11}, [](auto& x, auto& w, auto&) { return x.mm(w); }},
      {"transpose", {5, 7}, [](auto& x, auto& w, auto&) { return x.mm(w.transpose(0, 1)); }},
      {"the weight from the left", {5, 7}, [](auto& x, auto& w, auto&) { return w.mm(x.t()); }},
      {"the weight twice", {5, 7}, [](auto& x, auto& w, auto&) { return x.mm(w.t()).mm(w).mm(w.t()); }},
      {"the weight with itself", {5, 7}, [](auto& x, auto& w, auto&) { return x.mm(w.t().mm(w)); }},
      {"one view twice", {5, 7}, [](auto& x, auto& w, auto&) {
         const Tensor transposed = w.t();
         return torch::mm(x, transposed) + torch::mm(x.tanh(), transposed);
       }}};
  for (const NamedProduct& one : products) {
    SCOPED_TRACE(one.name);
    expect_autograds_bits(one);
  }
}

TEST_F(InterposeProducts, KeepWhatTheUserSeesOfTheTransposedWeight) {
  Layer layer(recorder, {11, 7});
  const Tensor input = torch::randn({5, 7});
  const auto made = [&](const Tensor& w) {
    const Tensor transposed = w.t();
    return std::pair(transposed, torch::mm(input, transposed).pow(3).sum());
  };
  const auto [plain_view, plain_loss] = made(layer.plain_weight);
  const auto [view, loss] = made(layer.weight);
  const Tensor of_view = torch::autograd::grad({loss}, {view}, {}, /*retain_graph=*/true)[0];
  EXPECT_TRUE(same_bits(torch::autograd::grad({plain_loss}, {plain_view}, {}, true)[0], of_view));
  EXPECT_TRUE(same_bits(place(), torch::full({11, 7}, -1.0)));

  for (const Tensor& each : {plain_view, view}) each.register_hook([](const Tensor& gradient) { return 2 * gradient; });
  view.retain_grad();
  plain_loss.backward();
  loss.backward();
  EXPECT_TRUE(same_bits(layer.plain_weight.grad(), arrived(0)));
  EXPECT_TRUE(same_bits(layer.plain_weight.grad().t(), view.grad()));
  EXPECT_FALSE(in_place());
}

TEST_F(InterposeProducts, CanBeDifferentiatedTwice) {
  const Product linear = [](const Tensor& x, const Tensor& w, const Tensor& b) { return torch::linear(x, w, b); };
  const Product functional = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return torch::nn::functional::linear(x, w, b);
  };
  const std::vector<NamedProduct> products{{"torch::linear", {5, 7}, linear},
                                           {"torch::linear", {2, 5, 7}, linear},
                                           {"nn::functional::linear", {5, 7}, functional},
                                           {"nn::functional::linear", {2, 5, 7}, functional}};
  Layer layer(recorder, {3, 7});
  for (const NamedProduct& one : products) {
    SCOPED_TRACE(one.name);
    const Tensor input = Layer::random(one.sizes), plain_input = Layer::copy(input);
    const auto second = [&one](const Tensor& x, const Tensor& w, const Tensor& b) {
      const Tensor loss = one.product(x, w, b).pow(3).sum();
      const auto first = torch::autograd::grad({loss}, {x, w}, {}, /*retain_graph=*/true, /*create_graph=*/true);
      return torch::autograd::grad({first[0].pow(2).sum() + first[1].pow(2).sum()}, {x, w, b});
    };
    const auto found = second(input, layer.weight, layer.bias);
    const auto expected = second(plain_input, layer.plain_weight, layer.plain_bias);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(expected[i], found[i])) << i;
  }
}

TEST_F(InterposeProducts, WithoutGradientsAreLibTorchs) {
  Layer layer(recorder, {11, 7});
  const Tensor input = torch::randn({2, 5, 7});
  const Tensor expected = torch::nn::functional::linear(input, layer.plain_weight, layer.plain_bias).detach();
  {
    torch::InferenceMode inference;
    const Tensor found = torch::nn::functional::linear(input, layer.weight, layer.bias);
    EXPECT_TRUE(found.is_inference() && torch::equal(expected, found));
  }
  torch::NoGradGuard no_grad;
  const Tensor found = torch::nn::functional::linear(input, layer.weight, layer.bias);
  EXPECT_TRUE(!found.requires_grad() && same_bits(expected, found));
}

TEST_F(InterposeLinear, WhoseWeightIsUsedTwiceHasThePlaceOnce) {
  Layer layer(recorder, {7, 7});
  const Tensor input = Layer::random({5, 7});
  const auto loss = [&](const Tensor& w) { return torch::linear(torch::linear(input, w).tanh(), w).pow(2).sum(); };
  loss(layer.weight).backward();
  loss(layer.plain_weight).backward();
  EXPECT_TRUE(same_bits(layer.plain_weight.grad(), arrived(0)));
}

TEST_F(InterposeLinear, LeavesThePlaceAloneWhereTheUserSeesTheGradient) {
  Layer layer(recorder, {3, 7});
  const Tensor input = torch::randn({5, 7});
  const auto loss = [&](const Tensor& w) { return torch::linear(input, w).pow(3).sum(); };
  const Tensor of_weight = torch::autograd::grad({loss(layer.weight)}, {layer.weight})[0];
  EXPECT_TRUE(same_bits(torch::autograd::grad({loss(layer.plain_weight)}, {layer.plain_weight})[0], of_weight));
  EXPECT_TRUE(same_bits(place(), torch::full({3, 7}, -1.0)));
  EXPECT_THAT(recorder.gradients, IsEmpty());

  Tensor seen;
  layer.weight.register_hook([&](const Tensor& gradient) {
    seen = gradient;
    return gradient * 2;
  });
  loss(layer.weight).backward();
  EXPECT_TRUE(same_bits(seen * 2, arrived(0)));
  EXPECT_FALSE(in_place());
}

TEST_F(InterposeLinear, LeavesOtherDtypesAndNestedInputsToAutograd) {
  Layer layer(recorder, {3, 7});
  EXPECT_FALSE(linear_goes_in_place(torch::randn({5, 7}, torch::kBFloat16), layer.weight, std::nullopt));
  EXPECT_FALSE(linear_goes_in_place(torch::randn({5, 7}).to_sparse(), layer.weight, std::nullopt));
  const Tensor nested = at::_nested_tensor_from_tensor_list({torch::randn({5, 7}), torch::randn({2, 7})});
  EXPECT_FALSE(linear_goes_in_place(nested, layer.weight, std::nullopt));
  EXPECT_TRUE(linear_goes_in_place(torch::randn({5, 7}), layer.weight, std::nullopt));
}

TEST_F(InterposeLinear, FrozenSinceTheForwardAsksForNoPlace) {
  Layer layer(recorder, {3, 7});
  const Tensor loss = torch::linear(torch::randn({5, 7}), layer.weight).sum();
  layer.weight.set_requires_grad(false);
  loss.backward();
  EXPECT_TRUE(same_bits(place(), torch::full({3, 7}, -1.0)));
  EXPECT_THAT(recorder.gradients, IsEmpty());
}

TEST_F(InterposeLinear, RunsBackwardTwiceThroughOneGraph) {
  Layer layer(recorder, {3, 7});
  const Tensor loss = torch::linear(torch::randn({5, 7}), layer.weight).pow(2).sum();
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
  const auto& gradients = recorder.gradients.at({2, 0});
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(same_bits(gradients[0], gradients[1]));
}

}  // namespace
}  // namespace fsdp::interpose
