// linear_cross_entropy against torch::nn::functional::cross_entropy of whole logits, and against finite differences.
#include <ATen/autocast_mode.h>
#include <c10/core/Allocator.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <limits>
#include <numeric>

#include "api/logit_passes.h"
#include "interpose/parameters.h"
#include "support/message_of.h"
#include "support/threads.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::Tensor;

// Odd numbers, of which no chunk is a divisor.
constexpr int64_t kTargets = 15, kHiddenWidth = 7, kEntries = 131;

struct Inputs {
  Tensor hidden, weight, targets;
  Inputs as(torch::ScalarType dtype) const {
    return {hidden.detach().to(dtype).requires_grad_(), weight.detach().to(dtype).requires_grad_(), targets};
  }
};

Inputs inputs_of(torch::ScalarType dtype = torch::kFloat64) {
  torch::manual_seed(11);
  Inputs made{torch::randn({3, kTargets / 3, kHiddenWidth}), torch::randn({kEntries, kHiddenWidth}),
              torch::randint(kEntries, {3, kTargets / 3}, torch::kInt64)};
  made.targets[0][0] = 0;
  made.targets[2][1] = kEntries - 1;
  return made.as(dtype);
}

Tensor reference(const Inputs& inputs, const LinearCrossEntropyOptions& options) {
  namespace F = torch::nn::functional;
  const Tensor logits = inputs.hidden.matmul(inputs.weight.t()).flatten(0, -2), targets = inputs.targets.flatten();
  Tensor losses = F::cross_entropy(logits, targets,
                                   F::CrossEntropyFuncOptions()
                                       .ignore_index(options.ignore_index)
                                       .label_smoothing(options.label_smoothing)
                                       .reduction(torch::kNone));
  const Tensor counted = targets != options.ignore_index;
  losses = losses + options.z_loss * logits.logsumexp(1).square() * counted;
  if (options.reduction == LossReduction::Sum) return losses.sum();
  if (options.reduction == LossReduction::Mean) return losses.sum() / counted.sum();
  return losses.view(inputs.targets.sizes());
}

struct Case {
  std::string name;
  LinearCrossEntropyOptions options;
};

// Each with room for the logits of one entry, of some, of several chunks of 64, and of all in one chunk.
std::vector<Case> cases() {
  const std::vector<Case> kinds{
      {"plain", {}},
      {"ignored", {.ignore_index = 0}},
      {"smooth", {.label_smoothing = 0.1}},
      {"all smooth", {.label_smoothing = 1}},
      {"z", {.z_loss = 0.01}},
      {"sum", {.reduction = LossReduction::Sum}},
      {"none", {.reduction = LossReduction::None}},
      {"all", {.ignore_index = 0, .label_smoothing = 0.2, .z_loss = 0.1, .reduction = LossReduction::None}},
      {"all, mean", {.ignore_index = 0, .label_smoothing = 0.2, .z_loss = 0.1}}};
  std::vector<Case> all;
  for (const Case& kind : kinds) {
    for (int64_t columns : {1, 40, 500, 2000}) {
      all.push_back({fmt::format("{}, room for {} entries", kind.name, columns), kind.options});
      all.back().options.chunk_bytes = columns * kTargets * 8;
    }
  }
  return all;
}

struct Outcome {
  Tensor loss, of_hidden, of_weight;
};

// Of a sum in which each loss has a weight of its own.
Outcome outcome_of(const Inputs& inputs, const Tensor& loss) {
  const Tensor factors = torch::linspace(-2, 3, loss.numel(), loss.options()).view(loss.sizes()) + 0.25;
  const auto gradients = torch::autograd::grad({(loss * factors).sum()}, {inputs.hidden, inputs.weight});
  return {loss.detach(), gradients[0], gradients[1]};
}

double distance(const Tensor& found, const Tensor& expected) {
  return (found.to(torch::kFloat64) - expected.to(torch::kFloat64)).abs().max().item<double>();
}

void expect_close(const Outcome& found, const Outcome& expected, double tolerance) {
  EXPECT_EQ(found.loss.sizes(), expected.loss.sizes());
  EXPECT_LT(distance(found.loss, expected.loss), tolerance);
  EXPECT_LT(distance(found.of_hidden, expected.of_hidden), tolerance);
  EXPECT_LT(distance(found.of_weight, expected.of_weight), tolerance);
}

// All numbers are below 100, sums have up to 131 terms: some hundred roundings of 1e-16 times 100.
TEST(LinearCrossEntropy, IsCrossEntropyOfTheLogits) {
  const Inputs inputs = inputs_of();
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options);
    expect_close(outcome_of(inputs, loss), outcome_of(inputs, reference(inputs, one.options)), 1e-11);
  }
}

// As above, with roundings of 1e-7.
TEST(LinearCrossEntropy, IsAsExactInSinglePrecision) {
  const Inputs exact = inputs_of(torch::kFloat32).as(torch::kFloat64), inputs = exact.as(torch::kFloat32);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
    expect_close(outcome_of(inputs, loss), outcome_of(exact, reference(exact, one.options)), 1e-3);
  }
}

// Logits below 16 are rounded by up to 2^-5 in 8 bits, and so are losses, times the factors and options up to 10.
TEST(LinearCrossEntropy, Of16BitsHasItsSumsInSinglePrecision) {
  const Inputs inputs = inputs_of(torch::kBFloat16), exact = inputs.as(torch::kFloat64);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
    const Outcome found = outcome_of(inputs, loss);
    EXPECT_EQ(found.of_hidden.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(found.of_weight.scalar_type(), torch::kBFloat16);
    expect_close(found, outcome_of(exact, reference(exact, one.options)), 0.5);
  }
}

// A mean of 16,384 losses of 5 would stop at 2048 in bf16.
TEST(LinearCrossEntropy, Of16BitsSumsManyLosses) {
  const Tensor hidden = torch::zeros({16384, 4}, torch::kBFloat16), weight = torch::zeros({128, 4}, torch::kBFloat16);
  const Tensor loss = linear_cross_entropy(hidden, weight, torch::zeros({16384}, torch::kInt64));
  EXPECT_NEAR(loss.item<double>(), std::log(128), 1e-5);
}

// The slope along a random direction. A central difference of step h is wrong by h^2 and by 1e-16 / h.
TEST(LinearCrossEntropy, HasTheSlopesOfFiniteDifferences) {
  const Inputs inputs = inputs_of();
  const Inputs direction{torch::randn_like(inputs.hidden), torch::randn_like(inputs.weight), {}};
  constexpr double kStep = 1e-5;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const auto value_at = [&](double distance) {
      const torch::NoGradGuard no_grad;
      return linear_cross_entropy(inputs.hidden + distance * direction.hidden,
                                  inputs.weight + distance * direction.weight, inputs.targets, one.options)
          .sum();
    };
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options).sum();
    const auto slopes = torch::autograd::grad({loss}, {inputs.hidden, inputs.weight});
    const Tensor slope = (slopes[0] * direction.hidden).sum() + (slopes[1] * direction.weight).sum();
    EXPECT_LT(distance(slope, (value_at(kStep) - value_at(-kStep)) / (2 * kStep)), 1e-6);
  }
}

// A loss far below the roundings of its logits.
TEST(LinearCrossEntropy, OfANearlyCertainTargetIsExact) {
  const Tensor hidden = torch::full({1, 1}, 1.0), weight = torch::tensor({{1000.0F}, {986.0F}});
  const Tensor loss = linear_cross_entropy(hidden, weight, torch::zeros({1}, torch::kInt64), {.chunk_bytes = 1});
  EXPECT_NEAR(loss.item<double>() / std::log1p(std::exp(-14)), 1, 0.1);  // exp(-14) beside 1: 8e-7, of steps of 1.2e-7
}

TEST(LinearCrossEntropy, TakesTensorsOfAnyStridesAndShapes) {
  const Inputs made = inputs_of();
  const std::vector<Inputs> all{
      {made.hidden.transpose(0, 1), made.weight, made.targets.t()},
      {made.hidden.flatten(0, 1), made.weight, made.targets.flatten()},
      {made.hidden[1][2], made.weight, made.targets[1][2]},
      {made.hidden, made.weight.t().contiguous().t(), made.targets},
      {made.hidden, made.weight.slice(0, 0, 262, 2), made.targets.div(2, "floor")},
      {made.hidden.slice(0, 0, 1).expand({3, -1, -1}), made.weight, made.targets[0].expand({3, -1})}};
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const LinearCrossEntropyOptions options{.reduction = LossReduction::None, .chunk_bytes = 5000};
    const Tensor loss = linear_cross_entropy(all[i].hidden, all[i].weight, all[i].targets, options);
    Tensor expected = torch::nn::functional::cross_entropy(
        all[i].hidden.matmul(all[i].weight.t()).reshape({-1, all[i].weight.size(0)}), all[i].targets.flatten(),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    expect_close(outcome_of(made, loss), outcome_of(made, expected.view(all[i].targets.sizes())), 1e-11);
  }
}

TEST(LinearCrossEntropy, OfNothingIsZero) {
  const Tensor weight = torch::randn({5, 3}, torch::requires_grad());
  const Tensor none = torch::randn({0, 3}, torch::requires_grad()), some = torch::randn({2, 3}, torch::requires_grad());
  const auto expect_nothing = [&](const Tensor& hidden, const Tensor& targets) {
    for (const auto reduction : {LossReduction::Mean, LossReduction::Sum, LossReduction::None}) {
      const Tensor loss = linear_cross_entropy(hidden, weight, targets, {.z_loss = 1, .reduction = reduction}).sum();
      EXPECT_EQ(loss.item<double>(), 0);
      const auto gradients = torch::autograd::grad({loss}, {hidden, weight});
      EXPECT_TRUE(torch::equal(gradients[0], torch::zeros_like(hidden)));
      EXPECT_TRUE(torch::equal(gradients[1], torch::zeros_like(weight)));
    }
  };
  expect_nothing(none, torch::zeros({0}, torch::kInt64));
  expect_nothing(some, torch::full({2}, -100));
}

TEST(LinearCrossEntropy, GivesARetainedGraphsGradientsTwice) {
  const Inputs inputs = inputs_of(torch::kFloat32);
  const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, {.chunk_bytes = 2000});
  loss.backward({}, /*retain_graph=*/true);
  const Tensor of_hidden = inputs.hidden.grad().clone(), of_weight = inputs.weight.grad().clone();
  loss.backward();
  EXPECT_TRUE(torch::equal(inputs.hidden.grad(), 2 * of_hidden));
  EXPECT_TRUE(torch::equal(inputs.weight.grad(), 2 * of_weight));
}

TEST(LinearCrossEntropy, MakesTheGradientsThatAreAskedFor) {
  const Inputs inputs = inputs_of();
  const auto gradients_of = [&](const Tensor& hidden, const Tensor& weight) {
    inputs.hidden.mutable_grad().reset();
    inputs.weight.mutable_grad().reset();
    linear_cross_entropy(hidden, weight, inputs.targets, {.chunk_bytes = 2000}).backward();
    return std::pair(inputs.hidden.grad(), inputs.weight.grad());
  };
  const auto both = gradients_of(inputs.hidden, inputs.weight);
  const auto hidden = gradients_of(inputs.hidden, inputs.weight.detach());
  const auto weight = gradients_of(inputs.hidden.detach(), inputs.weight);
  EXPECT_TRUE(torch::equal(hidden.first, both.first) && !hidden.second.defined());
  EXPECT_TRUE(torch::equal(weight.second, both.second) && !weight.first.defined());
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets).requires_grad());
}

TEST(LinearCrossEntropy, IsNotSeenByAutocast) {
  const Inputs inputs = inputs_of(torch::kFloat32);
  const auto make = [&] { return linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets); };
  const Outcome expected = outcome_of(inputs, make());
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  const Outcome found = outcome_of(inputs, make());
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  expect_close(found, expected, std::numeric_limits<double>::min());
}

// Bytes of tensors that are held while it lives, by operators of this thread.
class Peak : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    held_ += bytes;
    highest_ = std::max(highest_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t highest() const { return highest_; }
  int64_t held() const { return held_; }

 private:
  int64_t held_ = 0, highest_ = 0;
};

template <typename Body>
Peak peak_of(const Body& body) {
  const auto peak = std::make_shared<Peak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  body();
  return *peak;
}

// Bytes for what has one element for each row.
constexpr int64_t kMany = 30000, kRoom = 1 << 20, kFew = 16 << 10;

class LinearCrossEntropyMemory : public ::testing::TestWithParam<torch::ScalarType> {
 protected:
  Tensor loss() const {
    return linear_cross_entropy(hidden, weight, targets, {.label_smoothing = 0.1, .chunk_bytes = kRoom});
  }

  // Of LibTorch's products in 16 bits, which may make a chunk in a place of their own.
  static int64_t of_products() { return GetParam() == torch::kBFloat16 ? kRoom / 4 : 0; }

  Tensor hidden = torch::randn({64, 8}).to(GetParam()).requires_grad_();
  Tensor weight = torch::randn({kMany, 8}).to(GetParam()).requires_grad_();
  Tensor targets = torch::randint(kMany, {64}, torch::kInt64);
};
INSTANTIATE_TEST_SUITE_P(Dtypes, LinearCrossEntropyMemory,
                         ::testing::Values(torch::kFloat32, torch::kBFloat16, torch::kFloat64),
                         [](const auto& info) { return toString(info.param); });

// The whole ones would take 4 to 15 times as much.
TEST_P(LinearCrossEntropyMemory, IsBoundedWhateverTheVocabulary) {
  Tensor made;
  const Peak forward = peak_of([&] { made = loss(); });
  EXPECT_LT(forward.highest(), kRoom + kFew + of_products());
  EXPECT_GT(forward.held(), kRoom / 2);
  const Peak backward = peak_of([&] { made.backward(); });
  EXPECT_LT(forward.held() + backward.highest(), kRoom + kFew + of_products() + static_cast<int64_t>(weight.nbytes()));
  EXPECT_TRUE(hidden.grad().defined() && weight.grad().defined());
}

// Until each is used up. Bytes that are told beforehand are those that are held.
TEST_P(LinearCrossEntropyMemory, OfLogitsIsToldBeforehandAndCounted) {
  torch::nn::Module none;
  const int64_t told = kept_logit_bytes(64, kMany, GetParam(), {.chunk_bytes = kRoom});
  EXPECT_GT(told, kRoom / 2);
  const auto moments = preview_activations(none, [&] { return loss(); });
  const int64_t others = static_cast<int64_t>(hidden.nbytes() + weight.nbytes() + targets.nbytes()) + kFew;
  const int64_t counted = std::accumulate(moments.back().begin(), moments.back().end(), int64_t{0});
  EXPECT_GT(counted, told);
  EXPECT_LT(counted, told + others);
  Tensor made;
  const Peak forward = peak_of([&] { made = loss(); });
  EXPECT_GE(forward.held(), told);
  EXPECT_LT(forward.held(), told + kFew);
}

TEST(LinearCrossEntropy, TellsTheLogitsThatItKeeps) {
  EXPECT_EQ(kept_logit_bytes(10, 1000, torch::kFloat32), 40000);
  EXPECT_EQ(kept_logit_bytes(10, 1000, torch::kBFloat16), 20000);
  EXPECT_EQ(kept_logit_bytes(0, 1000, torch::kFloat32), 0);
  // Chunks of 64 columns, four of which fit: three are kept, and one is made again.
  EXPECT_EQ(kept_logit_bytes(1024, 50257, torch::kFloat32, {.chunk_bytes = 1 << 20}), 1024 * 3 * 64 * 4);
  EXPECT_THAT(message_of<Error>([] { kept_logit_bytes(1, 0, torch::kFloat32); }), HasSubstr("kept_logit_bytes: found"));
}

// Logits that were kept are used up, also where the graph stays.
TEST_P(LinearCrossEntropyMemory, OfLogitsIsGoneAfterTheBackward) {
  Tensor made;
  const Peak peak = peak_of([&] {
    made = loss();
    made.backward({}, /*retain_graph=*/true);
  });
  EXPECT_LT(peak.held(), kFew + static_cast<int64_t>(weight.nbytes()));
}

TEST_P(LinearCrossEntropyMemory, IsThatOfOneChunkWhereNothingRequiresAGradient) {
  const torch::NoGradGuard no_grad;
  EXPECT_LT(peak_of([&] { loss(); }).highest(), kRoom / 4 + kFew + of_products());
}

// The passes alone: LibTorch's products may have other bits.
TEST(LinearCrossEntropy, HasPassesOfTheBitsOfOneThreadOnSeveral) {
  constexpr int64_t kRows = 301, kColumns = 1000;
  torch::manual_seed(3);
  const Tensor logits = torch::randn({kRows, kColumns}), target = torch::randint(kColumns, {kRows}, torch::kInt64);
  const LogitGradient gradient{.largest = torch::randn({kRows}),
                               .factor = torch::randn({kRows}),
                               .everywhere = torch::randn({kRows}),
                               .at_target = torch::randn({kRows})};
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    std::vector<std::vector<Tensor>> found;
    for (int count : {1, 2, 3}) {
      const fsdp::testing::Threads threads(count);
      const LogitChunk chunk{.logits = logits.to(dtype, /*non_blocking=*/false, /*copy=*/true), .target = target};
      RowStatistics rows = statistics_of_no_logits(chunk.logits, /*with_total=*/true);
      add_to(rows, chunk);
      make_gradient(chunk, gradient);
      found.push_back({rows.exponentials.largest, rows.exponentials.sum, rows.of_target, rows.total, chunk.logits});
      for (size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(torch::equal(found.back()[i], found[0][i])) << count;
    }
    EXPECT_FALSE(torch::equal(found[0].back(), logits.to(dtype)));
  }
}

TEST(LinearCrossEntropy, IsAUseForTheOrderOfUse) {
  const Inputs inputs = inputs_of();
  torch::nn::Module module;
  module.register_parameter("head", inputs.weight);
  EXPECT_THAT(order_of_use(module, [&] { linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets); }),
              ElementsAre("head"));
}

TEST(LinearCrossEntropy, HasNoSecondDerivative) {
  const Inputs inputs = inputs_of();
  const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets);
  EXPECT_THAT(message_of([&] { loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true); }),
              AllOf(HasSubstr("create_graph"), HasSubstr("no second derivative")));
}

TEST(LinearCrossEntropy, NamesTheTargetThatIsNoEntry) {
  const Inputs inputs = inputs_of();
  for (int64_t wrong : {kEntries, int64_t{-1}, int64_t{1} << 40}) {
    const Tensor targets = inputs.targets.clone();
    targets[1][3] = wrong;
    targets[2][0] = -100;
    EXPECT_THAT(
        message_of([&] { linear_cross_entropy(inputs.hidden, inputs.weight, targets); }),
        HasSubstr(fmt::format("found the target {} at [1, 3], expected 0 to 130, or ignore_index, -100", wrong)));
  }
}

TEST(LinearCrossEntropy, RefusesWhatItCannotTake) {
  const Inputs in = inputs_of();
  const auto message = [](const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                          LinearCrossEntropyOptions options = {}) {
    return message_of([&] { linear_cross_entropy(hidden, weight, targets, options); });
  };
  EXPECT_THAT(message(in.hidden, in.weight[0], in.targets), HasSubstr("weight of shape [7]"));
  EXPECT_THAT(message(in.hidden, in.weight.slice(0, 0, 0), in.targets), HasSubstr("weight of shape [0, 7]"));
  EXPECT_THAT(message(in.hidden.slice(-1, 1), in.weight, in.targets), HasSubstr("[3, 5, 6], expected [..., 7]"));
  EXPECT_THAT(message(in.hidden.to(torch::kFloat32), in.weight, in.targets), HasSubstr("Float hidden states"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets.flatten()),
              HasSubstr("shape [15], expected Long of shape [3, 5]"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets.to(torch::kInt32)), HasSubstr("Int targets"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.label_smoothing = 1.5}), HasSubstr("label_smoothing 1.5"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.label_smoothing = NAN}), HasSubstr("label_smoothing nan"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.z_loss = -1}), HasSubstr("z_loss -1"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.chunk_bytes = 0}), HasSubstr("chunk_bytes 0"));
}

// A parameter of a unit, without an engine behind it: weight 0 of unit 0 has a place for its gradient.
class LinearCrossEntropyOfAUnit : public ::testing::Test {
 protected:
  interpose::Recorder recorder;
  Tensor weight = torch::randn({31, 4}, torch::requires_grad());
  Tensor plain = weight.detach().clone().requires_grad_();
  Tensor hidden = torch::randn({6, 4}, torch::requires_grad()), targets = torch::arange(6);
  interpose::Unit unit{recorder, 0, {weight}};
  LinearCrossEntropyOptions options{.chunk_bytes = 200};
};

TEST_F(LinearCrossEntropyOfAUnit, TakesItOncePerPassAndWritesItsGradientInPlace) {
  recorder.places[{0, 0}] = torch::full({31, 4}, -1.0);
  recorder.touches.clear();
  const Tensor loss = linear_cross_entropy(hidden, weight, targets, options);
  EXPECT_THAT(recorder.touches, ElementsAre("fsdp::linear_cross_entropy 0"));
  loss.backward();
  EXPECT_THAT(recorder.touches, ElementsAre("fsdp::linear_cross_entropy 0", "fsdp::linear_cross_entropy_backward 0"));
  EXPECT_TRUE(recorder.arrived_in_place.contains({0, 0}));
  const Tensor of_hidden = hidden.grad().clone();
  hidden.mutable_grad().reset();
  const Tensor expected = linear_cross_entropy(hidden, plain, targets, options);
  expected.backward();
  EXPECT_TRUE(torch::equal(loss, expected));
  EXPECT_TRUE(torch::equal(of_hidden, hidden.grad()));
  EXPECT_TRUE(torch::equal(recorder.gradients.at({0, 0}).at(0), plain.grad()));
}

// A view's gradient is not the parameter's.
TEST_F(LinearCrossEntropyOfAUnit, TakesViewsOfIt) {
  recorder.places[{0, 0}] = torch::full({31, 4}, -1.0);
  const Tensor narrow = torch::randn({4, 31});
  linear_cross_entropy(narrow, weight.t(), torch::arange(4), options).backward();
  linear_cross_entropy(narrow, plain.t(), torch::arange(4), options).backward();
  EXPECT_TRUE(torch::equal(recorder.gradients.at({0, 0}).at(0), plain.grad()));
}

TEST_F(LinearCrossEntropyOfAUnit, LeavesThePlaceAloneWhereTheUserAsks) {
  recorder.places[{0, 0}] = torch::full({31, 4}, -1.0);
  const auto found = torch::autograd::grad({linear_cross_entropy(hidden, weight, targets, options)}, {weight});
  const auto expected = torch::autograd::grad({linear_cross_entropy(hidden, plain, targets, options)}, {plain});
  EXPECT_TRUE(torch::equal(found[0], expected[0]));
  EXPECT_TRUE(torch::equal(recorder.places[{0, 0}], torch::full({31, 4}, -1.0)));
}

TEST_F(LinearCrossEntropyOfAUnit, LetsItGoAfterAnError) {
  recorder.refuse = "everything";
  EXPECT_THAT(message_of([&] { linear_cross_entropy(hidden, weight, targets, options); }), HasSubstr("refused"));
  recorder.refuse.clear();
  EXPECT_TRUE(torch::equal(linear_cross_entropy(hidden, weight, targets, options),
                           linear_cross_entropy(hidden, plain, targets, options)));
  EXPECT_EQ(recorder.events.back(), "end 0");
}

}  // namespace
}  // namespace fsdp
