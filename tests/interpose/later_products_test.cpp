// Backwards in two parts have the bits of undivided ones: of plain leaves and of interposed parameters.
#include "interpose/later_products.h"

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <fsdp/activation_checkpoint.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "interpose/parameters.h"

namespace fsdp::interpose {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int kBatches = 3;

// The leaves of all cases.
struct Weights {
  explicit Weights(torch::ScalarType dtype = torch::kFloat32) {
    torch::manual_seed(5);
    for (at::IntArrayRef sizes : std::vector<at::IntArrayRef>{{7, 7}, {11, 7}, {11}, {7}, {13, 7}})
      all.push_back(torch::randn(sizes).div(2).to(dtype).set_requires_grad(true));
  }
  const Tensor& square() const { return all[0]; }
  const Tensor& wide() const { return all[1]; }
  const Tensor& bias() const { return all[2]; }
  const Tensor& scale() const { return all[3]; }
  const Tensor& table() const { return all[4]; }
  Tensors gradients() const {
    Tensors gradients;
    for (const Tensor& leaf : all) gradients.push_back(leaf.grad());
    return gradients;
  }

  Tensors all;
};

using Forward = std::function<Tensor(const Weights& weights, const Tensor& x)>;
struct Case {
  std::string name;
  Forward forward;
  int left = 0;  // products that run() computes
  std::vector<int64_t> sizes = {5, 7};
};

Tensor ids() { return torch::tensor({3, 1, 12, 3, 0}); }
Tensor layers(const Weights& w, const Tensor& x) {
  namespace nn = torch::nn::functional;
  const Tensor h = torch::layer_norm(x, {7}, w.scale());
  return x.mean() + nn::linear(torch::tanh(nn::linear(h, w.square())), w.wide(), w.bias());
}
Tensor recomputed(const Weights& w, const Tensor& x) {
  const auto block = [&](const Tensor& h) {
    return torch::linear(torch::tanh(torch::linear(h, w.square())), w.wide());
  };
  return activation_checkpoint(block, x);
}
Tensor in_autocast(const Weights& w, const Tensor& x) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor y = torch::linear(torch::tanh(torch::linear(x, w.square())), w.square());
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  return y;
}

std::vector<Case> cases() {
  const auto head = [](const Weights& w, const Tensor& x) { return torch::linear(x, w.table()); };
  return {
      {"x @ w @ w", [](auto& w, auto& x) { return x.matmul(w.square()).matmul(w.square()); }, 2},
      {"a weight three times, by two ways",
       [](auto& w, auto& x) {
         const Tensor early = w.square().t();
         const Tensor h = torch::linear(x, w.square()).tanh().matmul(early);
         return torch::linear(h, w.square()).matmul(w.square());
       },
       4},
      {"one view twice",
       [](auto& w, auto& x) {
         const Tensor transposed = w.square().t();
         return torch::mm(torch::mm(x, transposed).tanh(), transposed) + torch::linear(x, w.square());
       },
       3},
      {"layers", layers, 2},
      {"layers of three dimensions", layers, 2, {2, 5, 7}},
      {"layers of no rows", layers, 2, {0, 7}},
      {"recomputed", recomputed, 2},
      {"in autocast", in_autocast, 2},
      {"addmm", [](auto& w, auto& x) { return torch::addmm(w.bias(), x, w.wide().t()); }, 1},
      {"addmm times two", [](auto& w, auto& x) { return torch::addmm(w.bias(), x, w.wide().t(), 1, 2); }, 0},
      {"a head tied to an embedding",
       [head](auto& w, auto& x) { return head(w, x + torch::embedding(w.table(), ids()).tanh()); }, 1},
      {"a head tied to two embeddings",
       [head](auto& w, auto& x) {
         const Tensor h = torch::embedding(w.table(), ids()) * torch::embedding(w.table(), ids().flip(0));
         return head(w, head(w, x + h).matmul(w.table()));
       },
       3},
      {"a weight that is used otherwise too",
       [](auto& w, auto& x) { return torch::linear(torch::linear(x * w.square().sum(), w.square()), w.square()); }, 0},
      {"a weight from the left", [](auto& w, auto& x) { return w.wide().mm(x.t()); }, 0},
      {"a weight as both factors", [](auto& w, auto& x) { return x.mm(w.square().mm(w.square().t())); }, 0},
      {"layers behind a constant",
       [](auto& w, auto& x) {
         return torch::linear(torch::linear(torch::ones({5, 7}, x.options()), w.square()) + x, w.square());
       },
       2},
      {"a layer behind a constant alone",
       [](auto& w, auto& x) {
         return x.sum() + torch::linear(torch::ones({5, 7}, x.options()), w.wide());
       },
       1},
      {"a part of a weight", [](auto& w, auto& x) { return torch::linear(x, w.wide().slice(0, 2, 9)); }, 0},
  };
}

Tensor loss_of(const Case& one, const Weights& weights, const Tensor& x) {
  return one.forward(weights, x).pow(2).sum();
}
Tensors inputs_of(const Case& one, torch::ScalarType dtype) {
  torch::manual_seed(6);
  Tensors inputs;
  for (int i = 0; i < kBatches; ++i) inputs.push_back(torch::randn(one.sizes).to(dtype).set_requires_grad(true));
  return inputs;
}

int products = 0;

// Counts the products of matrices that this thread computes.
class CountedProducts {
 public:
  CountedProducts() {
    products = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          products += std::string_view(function.name()) == "aten::mm" && c10::GradMode::is_enabled() == false;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~CountedProducts() { at::removeCallback(handle_); }
  CountedProducts(const CountedProducts&) = delete;
  CountedProducts& operator=(const CountedProducts&) = delete;
  int take() { return std::exchange(products, 0); }

 private:
  at::CallbackHandle handle_;
};

void expect_same(const Tensors& expected, const Tensors& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].defined(), found[i].defined()) << i;
    EXPECT_TRUE(!expected[i].defined() || same_bits(expected[i], found[i])) << "number " << i;
  }
}

TEST(LaterProducts, OfPlainLeavesHaveTheBitsOfAnUndividedBackward) {
  for (const Case& one : cases()) {
    for (torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
      if (one.name == "in autocast" && dtype != torch::kFloat32) continue;
      SCOPED_TRACE(fmt::format("{} in {}", one.name, toString(dtype)));
      const Weights expected(dtype), found(dtype);
      const Tensors inputs = inputs_of(one, dtype), expected_inputs = inputs_of(one, dtype);
      for (const Tensor& x : expected_inputs) loss_of(one, expected, x).backward();

      std::vector<LaterProducts> later(kBatches);
      CountedProducts counted;
      for (int i = 0; i < kBatches; ++i) {
        const Tensors of_inputs = later[i].backward_to_inputs({loss_of(one, found, inputs[i])}, {{}}, {inputs[i]});
        expect_same({expected_inputs[i].grad()}, of_inputs);
        EXPECT_FALSE(later[i].empty());
      }
      for (const Tensor& gradient : found.gradients()) EXPECT_FALSE(gradient.defined());
      EXPECT_FALSE(inputs[0].grad().defined());
      counted.take();
      for (LaterProducts& one : later) one.run();
      if (one.sizes[0] > 0) EXPECT_EQ(counted.take(), one.left * kBatches);
      expect_same(expected.gradients(), found.gradients());
    }
  }
}

// Names of leaves in the order in which their hooks saw gradients.
std::vector<int> order_of_arrival(const Weights& weights, const std::function<void()>& backward) {
  std::vector<int> order;
  std::vector<unsigned> hooks;
  for (size_t i = 0; i < weights.all.size(); ++i)
    hooks.push_back(weights.all[i].register_hook([&order, i](const Tensor&) { order.push_back(static_cast<int>(i)); }));
  backward();
  for (size_t i = 0; i < hooks.size(); ++i) weights.all[i].remove_hook(hooks[i]);
  return order;
}

TEST(LaterProducts, ArriveInTheOrderOfAnUndividedBackwardAndHooksSeeThemOnce) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Weights weights;
    const Tensor x = inputs_of(one, torch::kFloat32)[0];
    const std::vector<int> expected = order_of_arrival(weights, [&] { loss_of(one, weights, x).backward(); });
    const std::vector<int> found = order_of_arrival(weights, [&] {
      LaterProducts later;
      later.backward_to_inputs({loss_of(one, weights, x)}, {{}}, {x});
      later.run();
    });
    EXPECT_THAT(found, ElementsAreArray(expected));
  }
}

TEST(LaterProducts, ApplyHooksOfParametersAndOfInputs) {
  const Case one{"layers", layers};
  const Weights expected, found;
  const Tensor x = inputs_of(one, torch::kFloat32)[0], expected_x = inputs_of(one, torch::kFloat32)[0];
  for (const Weights* weights : {&expected, &found}) {
    for (const Tensor& leaf : weights->all) leaf.register_hook([](const Tensor& gradient) { return gradient * 3; });
  }
  for (const Tensor& input : {x, expected_x}) input.register_hook([](const Tensor& gradient) { return gradient * 5; });
  loss_of(one, expected, expected_x).backward();
  LaterProducts later;
  expect_same({expected_x.grad()}, later.backward_to_inputs({loss_of(one, found, x)}, {{}}, {x}));
  later.run();
  expect_same(expected.gradients(), found.gradients());
}

TEST(LaterProducts, WithoutInputsAreThoseOfAFirstStage) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Weights expected, found;
    const Tensor x = inputs_of(one, torch::kFloat32)[0].detach();
    loss_of(one, expected, x).backward();
    LaterProducts later;
    EXPECT_THAT(later.backward_to_inputs({loss_of(one, found, x)}, {{}}, {}), IsEmpty());
    for (const Tensor& gradient : found.gradients()) EXPECT_FALSE(gradient.defined());
    later.run();
    expect_same(expected.gradients(), found.gradients());
  }
}

TEST(LaterProducts, OfARetainedGraphComeTwice) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Weights expected, found;
    const Tensor x = inputs_of(one, torch::kFloat32)[0], expected_x = inputs_of(one, torch::kFloat32)[0];
    const Tensor expected_loss = loss_of(one, expected, expected_x), loss = loss_of(one, found, x);
    expected_loss.backward({}, /*retain_graph=*/true);
    expected_loss.backward({}, /*retain_graph=*/true);
    expected_loss.backward();
    for (int i = 0; i < 2; ++i) {
      LaterProducts later;
      later.backward_to_inputs({loss}, {{}}, {x}, /*retain_graph=*/true);
      later.run();
    }
    loss.backward();  // leaves nothing
    expect_same(expected.gradients(), found.gradients());
  }
}

TEST(LaterProducts, HoldNoMoreThanTheInputsAndTheGradientsOfLayers) {
  const Weights w;
  const Tensor x = inputs_of({}, torch::kFloat32)[0];
  c10::weak_intrusive_ptr<c10::StorageImpl> of_input = x.storage().getWeakStorageImpl(), of_result = of_input;
  LaterProducts later;
  {
    const Tensor input = torch::linear(x, w.square()).tanh(), result = torch::linear(input, w.wide()).sigmoid();
    of_input = input.storage().getWeakStorageImpl();
    of_result = result.storage().getWeakStorageImpl();
    later.backward_to_inputs({result.pow(2).sum()}, {{}}, {x});
  }
  EXPECT_TRUE(of_result.expired());
  EXPECT_FALSE(of_input.expired());
  later.run();
  EXPECT_TRUE(of_input.expired());
}

TEST(LaterProducts, RefuseTensorsThatWereModifiedInPlaceSince) {
  enum class What { Weight, Input, Gradient };
  for (What what : {What::Weight, What::Input, What::Gradient}) {
    const Weights w;
    const Tensor x = inputs_of({}, torch::kFloat32)[0], offset = torch::zeros_like(x).set_requires_grad(true);
    const Tensor input = (x + offset).detach();
    LaterProducts later;
    // The gradient of the offset is that of x, the same tensor.
    const Tensor loss = torch::linear(input, w.square()).sum() + (x + offset).pow(2).sum();
    const Tensors gradients = later.backward_to_inputs({loss}, {{}}, {x});
    {
      const torch::NoGradGuard no_grad;
      (what == What::Weight ? w.square() : what == What::Input ? input : gradients[0]).mul_(2);
    }
    EXPECT_THROW(later.run(), c10::Error) << static_cast<int>(what);
    EXPECT_TRUE(later.empty()) << static_cast<int>(what);
  }
}

TEST(LaterProducts, AreGoneAfterABackwardThatThrew) {
  const Case one{"layers", layers};
  const Weights expected, found;
  const Tensor x = inputs_of(one, torch::kFloat32)[0];
  const Tensor loss = loss_of(one, found, x);
  bool refuse = true;
  x.register_hook([&](const Tensor&) {
    if (refuse) throw std::runtime_error("no");
  });
  LaterProducts later;
  EXPECT_THROW(later.backward_to_inputs({loss}, {{}}, {x}, /*retain_graph=*/true), std::runtime_error);
  EXPECT_TRUE(later.empty());
  refuse = false;
  loss.backward();
  loss_of(one, expected, inputs_of(one, torch::kFloat32)[0]).backward();
  expect_same(expected.gradients(), found.gradients());
}

TEST(LaterProducts, RefuseOtherTensors) {
  const Weights w;
  const Tensor x = torch::ones({5, 7}, torch::requires_grad()), y = torch::linear(x, w.square());
  LaterProducts later;
  EXPECT_THROW(later.backward_to_inputs({y.detach()}, {y}, {x}), Error);
  EXPECT_THROW(later.backward_to_inputs({y}, {{}}, {x}), Error);
  EXPECT_THROW(later.backward_to_inputs({y}, {}, {x}), Error);
  EXPECT_THROW(later.backward_to_inputs({y}, {y.detach()}, {x * 2}), Error);
  later.backward_to_inputs({y}, {y.detach()}, {x}, /*retain_graph=*/true);
  EXPECT_THROW(later.backward_to_inputs({y}, {y.detach()}, {x}), Error);
}

class InterposedLaterProducts : public Interpose {};

TEST_F(InterposedLaterProducts, HaveTheBitsOfAnUndividedBackwardAndGoInPlace) {
  for (const Case& one : cases()) {
    if (one.name == "in autocast") continue;  // sharded parameters refuse it
    SCOPED_TRACE(one.name);
    recorder.gradients.clear();
    recorder.arrived_in_place.clear();
    recorder.given.clear();
    recorder.places[{2, 1}] = torch::full({11, 7}, -1.0);
    const Weights expected, found;
    const Unit found_unit(recorder, 2, found.all), expected_unit(recorder, 3, expected.all);
    const Tensor x = inputs_of(one, torch::kFloat32)[0], expected_x = inputs_of(one, torch::kFloat32)[0];
    loss_of(one, expected, expected_x).backward();
    const size_t arrived = recorder.gradients.size();
    EXPECT_GT(arrived, 0u);
    LaterProducts later;
    expect_same({expected_x.grad()}, later.backward_to_inputs({loss_of(one, found, x)}, {{}}, {x}));
    EXPECT_EQ(recorder.gradients.size(), arrived);
    recorder.touches.clear();
    const int ends = recorder.ends;
    later.run();
    EXPECT_EQ(recorder.ends, ends + 1);
    EXPECT_THAT(recorder.touches, IsEmpty());
    EXPECT_EQ(recorder.gradients.size(), 2 * arrived);
    for (int i = 0; i < 5; ++i) expect_same(recorder.gradients[{3, i}], recorder.gradients[{2, i}]);
    if (one.name == "layers") EXPECT_TRUE(recorder.arrived_in_place.contains({2, 1}));
  }
}

}  // namespace
}  // namespace fsdp::interpose
