// Reversible blocks against plain autograd, and against themselves on ranks.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::reversible {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using testing_models::TestModel;
using testing_models::values_for;
using torch::Tensor;

constexpr int64_t kHalf = 6, kReversible = 3;

torch::nn::Sequential make_function() {
  return torch::nn::Sequential(torch::nn::Linear(kHalf, 2 * kHalf), torch::nn::Tanh(), torch::nn::Dropout(0.2),
                               torch::nn::Linear(2 * kHalf, kHalf));
}

// A Sequential's forward is a template, which AnyModule cannot hold.
struct HalfImpl : torch::nn::Module {
  HalfImpl() : layers(register_module("layers", make_function())) {}
  Tensor forward(const Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Half);

std::vector<ReversibleBlock> make_blocks() {
  std::vector<ReversibleBlock> blocks;
  for (int64_t i = 0; i < kReversible; ++i)
    blocks.emplace_back(torch::nn::AnyModule(Half()), torch::nn::AnyModule(Half()));
  return blocks;
}

struct ReversibleNet : torch::nn::Module {
  explicit ReversibleNet(bool reverses) : reverses_(reverses) {
    sequence = register_module("sequence", ReversibleSequence(make_blocks()));
    head = register_module("head", torch::nn::Linear(kHalf, 3));
  }
  Tensor forward(const Tensor& input) {
    const Tensor x = input.to(head->weight.scalar_type());
    Tensor x1 = x.slice(-1, 0, kHalf), x2 = x.slice(-1, kHalf);
    if (reverses_) {
      std::tie(x1, x2) = sequence(x1, x2);
    } else {
      for (const auto& block : *sequence->named_children()["blocks"]->as<torch::nn::ModuleList>()) {
        std::tie(x1, x2) = block->as<ReversibleBlock>()->forward(x1, x2);
      }
    }
    return head(x1) * head(x2);
  }

  bool reverses_;
  ReversibleSequence sequence{nullptr};
  torch::nn::Linear head{nullptr};
};

TestModel make_net(bool reverses) {
  torch::manual_seed(5);
  auto net = std::make_shared<ReversibleNet>(reverses);
  return {net, [net](int64_t b) {
            torch::manual_seed(50 + static_cast<uint64_t>(b));
            return net->forward(values_for(b, {4, 2 * kHalf})).pow(2).mean();
          }};
}

// Not bit for bit: the inputs of the blocks are computed back, which adds some roundings for each block.
TEST(Reversible, HasTheGradientsOfPlainAutogradToRounding) {
  const TestModel plain = make_net(false), reversible = make_net(true);
  const Tensor expected = plain.loss(1), found = reversible.loss(1);
  EXPECT_TRUE(torch::equal(found, expected));
  const Tensor drawn = torch::rand(2);
  for (int i = 0; i < 2; ++i) {
    expected.backward({}, /*retain_graph=*/true);
    found.backward({}, /*retain_graph=*/true);
  }
  const auto gradients = reversible.module->named_parameters();
  for (const auto& parameter : plain.module->named_parameters()) {
    const Tensor& gradient = gradients[parameter.key()].grad();
    ASSERT_TRUE(gradient.defined()) << parameter.key();
    EXPECT_TRUE(torch::allclose(gradient, parameter.value().grad(), 1e-4, 1e-6)) << parameter.key();
  }
  const Tensor drawn_behind = torch::rand(2);
  torch::manual_seed(51);
  reversible.module->as<ReversibleNet>()->forward(values_for(1, {4, 2 * kHalf}));
  EXPECT_TRUE(torch::equal(torch::rand(2), drawn));
  EXPECT_TRUE(torch::equal(torch::rand(2), drawn_behind));  // no backward drew
}

TEST(Reversible, KeepsItsResultAlone) {
  for (const bool reverses : {false, true}) {
    const TestModel model = make_net(reverses);
    const auto net = std::dynamic_pointer_cast<ReversibleNet>(model.module);
    const Tensor x = values_for(1, {64, 2 * kHalf});
    int64_t bytes = 0;
    const auto moments = preview_activations(*net, [&] { return net->forward(x).sum(); });
    for (const int64_t storage : moments.back()) bytes += storage;
    const int64_t pair = 64 * 2 * kHalf * 4;
    if (reverses) EXPECT_LT(bytes, 2 * pair);  // and the two results of the head
    if (!reverses) EXPECT_GT(bytes, kReversible * 5 * pair);
  }
}

TEST(Reversible, RefusesSecondDerivatives) {
  const TestModel model = make_net(true);
  const Tensor loss = model.loss(1);
  EXPECT_THAT(message_of<Error>([&] { loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true); }),
              HasSubstr("no second derivative"));
  model.module->zero_grad();  // some have a graph, and with it themselves
  EXPECT_THAT(message_of<Error>([] { ReversibleSequence(std::vector<ReversibleBlock>()); }), HasSubstr("no block"));
}

class ReversibleOnRanks : public ::testing::TestWithParam<Job> {};

void expect_bits_of_one_process(World& world, const testing_models::Training& training) {
  testing_models::Expected expected([] { return make_net(true); }, training);
  for (auto [name, options] : testing_models::every_strategy(world.size())) {
    SCOPED_TRACE(name);
    options.units = units_of<ReversibleBlockImpl>();
    options.mixed_precision.param_dtype = training.param_dtype;
    testing_models::expect_same_bits(expected, world, options);
  }
}

TEST_P(ReversibleOnRanks, HasTheBitsOfItselfOnOneProcess) {
  run_ranks(GetParam(),
            [](World& world) { expect_bits_of_one_process(world, {.steps = 4, .micro_batches = 2 * world.size()}); });
}

// Twelve micro-batches per step on every number of ranks, so that all train on the same data.
TEST_P(ReversibleOnRanks, HasTheSameBitsInSixteenBitsOnAnyNumberOfRanks) {
  run_ranks(GetParam(), [](World& world) {
    expect_bits_of_one_process(world, {.steps = 3, .micro_batches = 12, .param_dtype = torch::kBFloat16});
    expect_bits_of_one_process(world, {.steps = 3, .micro_batches = 12, .param_dtype = torch::kHalf});
  });
}

INSTANTIATE_TEST_SUITE_P(Of, ReversibleOnRanks,
                         drawn<Job>({{2, "shm"}, {3, "gloo"}}, {{1, "shm"}, {4, "shm"}, {2, "gloo"}, {4, "gloo"}}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp::reversible
