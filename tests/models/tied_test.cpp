// Tied weights: within a unit, across units, divided unevenly.
#include <gmock/gmock.h>

#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::TestModel;
using torch::Tensor;

// Uses `own` and `shared`, each several times, in another order than that of the units.
struct Block : torch::nn::Module {
  Block(const Tensor& tied, int64_t rows, int64_t width)
      : own(register_parameter("own", torch::randn({rows, width}) / 4)),
        shared(register_parameter("shared", tied.defined() ? tied : own)) {}
  Tensor forward(const Tensor& x) {
    const Tensor own_transposed = own.t(), shared_transposed = shared.t();
    return x + torch::tanh(torch::linear(torch::linear(x, shared), own_transposed) +
                           torch::linear(torch::linear(x, own), shared_transposed));
  }

  Tensor own, shared;
};

enum class Tied { Within, Across };
enum class StepBegins { WithUse, WithView };  // of parameters

TestModel make_blocks(Tied tied, int64_t rows, int64_t width, StepBegins begins = StepBegins::WithUse) {
  torch::manual_seed(3);
  torch::nn::Sequential blocks;
  Tensor first;
  for (int i = 0; i < 3; ++i) {
    auto block = std::make_shared<Block>(first, rows, width);
    if (tied == Tied::Across) first = block->shared;
    blocks->push_back(block);
  }
  auto model = std::make_shared<torch::nn::Module>();
  auto input = model->register_module("input", torch::nn::Linear(5, width));
  model->register_module("blocks", blocks);
  if (begins == StepBegins::WithView) {
    return {model, [blocks, width](int64_t b) mutable {
              return blocks->forward(testing_models::values_for(b, {4, width})).pow(2).mean();
            }};
  }
  return {model, [input, blocks](int64_t b) mutable {
            return blocks->forward(input->forward(testing_models::values_for(b, {4, 5}))).pow(2).mean();
          }};
}

class Tying : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Tying, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

TEST_P(Tying, WithinAUnit) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits([] { return make_blocks(Tied::Within, 16, 16); }, world, {.micro_batches = 2 * world.size()});
  });
}

TEST_P(Tying, AcrossUnits) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits([] { return make_blocks(Tied::Across, 16, 16); }, world, {.micro_batches = 2 * world.size()});
  });
}

TEST_P(Tying, WhereAStepBeginsWithAView) {
  run_ranks(GetParam(), [](World& world) {
    for (Tied tied : {Tied::Within, Tied::Across}) {
      expect_same_bits([tied] { return make_blocks(tied, 16, 16, StepBegins::WithView); }, world,
                       {.micro_batches = 2 * world.size()});
    }
  });
}

// 7 x 15 = 105 elements: 64 on one rank, 41 on the next.
TEST_P(Tying, AcrossUnitsThatAreDividedUnevenly) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits([] { return make_blocks(Tied::Across, 7, 15); }, world,
                     {.micro_batches = world.size(), .clip = 0.1});
  });
}

}  // namespace
}  // namespace fsdp
