// Backwards of sharded models in two parts, first the inputs' gradients and later the parameters': the bits of one
// process that runs them undivided.
#include "interpose/later_products.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model.h"
#include "support/drawn.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/tied_models.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using interpose::LaterProducts;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::Unsharded;
using testing_models::Weights;
using torch::Tensor;

constexpr int kLaterBatches = 4, kLaterSteps = 3;
constexpr double kLaterRate = 1e-2;

// Forwards (F), gradients of inputs (I) and of weights (W) of micro-batches, and whole backwards (B).
struct LaterOrder {
  std::string events;
  bool in_flight = true;  // several micro-batches: they need names
};
std::vector<LaterOrder> later_orders() {
  return {{"F0 F1 I0 F2 I1 W0 F3 I2 I3 W1 W2 W3"},
          {"F0 F1 I0 W0 B1 F2 F3 I2 W2 B3"},
          {"F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3", false}};
}

// A matrix that is used twice in a row, a recomputed block with biases, and a norm. Its inputs have gradients.
struct LaterStage : torch::nn::Module {
  LaterStage()
      : matrix(register_parameter("matrix", torch::randn({12, 12}) / 3)),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({12})))),
        up(register_module("up", torch::nn::Linear(12, 30))),
        down(register_module("down", torch::nn::Linear(30, 12))) {}
  Tensor forward(const Tensor& x) {
    const auto block = [this](const Tensor& h) { return down(torch::tanh(up(norm(h)))); };
    return x + activation_checkpoint(block, x.matmul(matrix).matmul(matrix));
  }

  Tensor matrix;
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};

// A model, and the inputs of its last forward that have gradients.
struct InputsModel {
  TestModel model;
  std::shared_ptr<std::vector<Tensor>> inputs = std::make_shared<std::vector<Tensor>>();
};

InputsModel make_stages() {
  torch::manual_seed(8);
  torch::nn::Sequential stages(std::make_shared<LaterStage>(), std::make_shared<LaterStage>());
  InputsModel staged;
  staged.model = {stages.ptr(), [stages, inputs = staged.inputs](int64_t b) mutable {
                    const auto dtype = stages->parameters()[0].scalar_type();
                    Tensor x = testing_models::values_for(b, {4, 12}).to(dtype).requires_grad_();
                    *inputs = {x};
                    return stages->forward(x).pow(2).sum();
                  }};
  return staged;
}

// Its blocks run backwards of their own, in the first part.
struct LaterReversible : torch::nn::Module {
  LaterReversible() {
    std::vector<ReversibleBlock> blocks;
    for (int i = 0; i < 2; ++i)
      blocks.emplace_back(torch::nn::AnyModule(torch::nn::Linear(6, 6)), torch::nn::AnyModule(torch::nn::Linear(6, 6)));
    sequence = register_module("sequence", ReversibleSequence(blocks));
    head = register_module("head", torch::nn::Linear(6, 3));
  }
  Tensor forward(const Tensor& x) {
    const auto [first, second] = sequence(x.slice(1, 0, 6), x.slice(1, 6));
    return head(first) * head(second);
  }

  ReversibleSequence sequence{nullptr};
  torch::nn::Linear head{nullptr};
};

InputsModel make_reversible_stage() {
  torch::manual_seed(9);
  const auto net = std::make_shared<LaterReversible>();
  return {{net, [net](int64_t b) { return net->forward(testing_models::values_for(b, {4, 12})).pow(2).sum(); }}};
}

struct InputsKind {
  const char* name;
  std::function<InputsModel()> make;
  std::optional<torch::ScalarType> dtype = {};
};
std::vector<InputsKind> inputs_kinds() {
  return {{"stages", make_stages},
          {"stages in bf16", make_stages, torch::kBFloat16},
          {"GPT with a tied embedding", [] { return InputsModel{testing_models::make_gpt()}; }},
          {"GPT in bf16", [] { return InputsModel{testing_models::make_gpt()}; }, torch::kBFloat16},
          {"reversible", make_reversible_stage},
          {"tied over units", [] { return InputsModel{testing_models::make_tied(testing_models::Tied::Across)}; }}};
}

Weights undivided(const InputsKind& kind, int ranks) {
  const InputsModel staged = kind.make();
  const int64_t batches = ranks * kLaterBatches;
  Unsharded unsharded(staged.model.module, {.micro_batches = batches, .lr = kLaterRate, .param_dtype = kind.dtype});
  for (int64_t b = 0; b < kLaterSteps * batches; ++b) {
    unsharded.add([&] { return staged.model.loss(b); });
    if ((b + 1) % batches == 0) unsharded.step();
  }
  return unsharded.weights();
}

struct OpenBatch {
  Tensor loss;
  std::vector<Tensor> inputs;
  LaterProducts later;
};

Weights divided(const InputsKind& kind, const LaterOrder& order, World& world, Options options, bool names) {
  const InputsModel staged = kind.make();
  options.mixed_precision = {.param_dtype = kind.dtype};
  auto sharded = shard(*staged.model.module, world, std::move(options));
  sharded.set_gradient_divisor(world.size() * kLaterBatches);
  AdamW optimizer(sharded, {.lr = kLaterRate});
  for (int step = 0; step < kLaterSteps; ++step) {
    std::vector<OpenBatch> batches(kLaterBatches);
    const CommunicationReport before = sharded.communication();
    for (size_t i = 0; i < order.events.size(); i += 3) {
      const char event = order.events[i];
      const int number = order.events[i + 1] - '0';
      OpenBatch& batch = batches[number];
      std::optional<MicroBatch> scope;
      if (names) scope.emplace(sharded, number);
      if (event == 'F') {
        batch.loss = staged.model.loss((step * kLaterBatches + number) * world.size() + world.rank());
        batch.inputs = *staged.inputs;
      } else if (event == 'B') {
        std::exchange(batch.loss, {}).backward();
      } else if (event == 'I') {
        batch.later.backward_to_inputs({std::exchange(batch.loss, {})}, {{}}, batch.inputs);
      } else {
        batch.later.run();
      }
    }
    optimizer.step();
    optimizer.zero_grad();
    const CommunicationReport of_step = sharded.communication().since(before);
    if (step > 1) EXPECT_EQ(of_step.foreseen_gathers, of_step.gathers);
  }
  const CommunicationReport report = sharded.communication();
  EXPECT_EQ(report.late_gradients, 0);
  // A first part after a whole backward may reduce a unit without gradients, for it expects some.
  if (world.size() > 1 && order.events.find('B') == std::string::npos) {
    const auto units = static_cast<int64_t>(sharded.model().units().size());
    EXPECT_EQ(report.reductions, units * kLaterBatches * kLaterSteps) << "one for each unit and micro-batch";
  }
  return testing_models::whole_weights(*staged.model.module, sharded);
}

class LaterProductsOfShards : public ::testing::TestWithParam<Job> {};

TEST_P(LaterProductsOfShards, HaveTheBitsOfOneProcessThatDividesNothing) {
  run_ranks(GetParam(), [](World& world) {
    for (const InputsKind& kind : inputs_kinds()) {
      const Weights expected = undivided(kind, world.size());
      for (const auto& [strategy, options] : testing_models::every_strategy(world.size())) {
        for (const LaterOrder& order : later_orders()) {
          for (bool names : {false, true}) {
            if (order.in_flight && !names) continue;
            EXPECT_THAT(testing_models::differences(expected, divided(kind, order, world, options, names)), IsEmpty())
                << kind.name << ", " << strategy << ", " << order.events << ", with names " << names;
          }
        }
      }
    }
  });
}

// The scope of the step holds the second part of the step's last backward, or both parts.
TEST_P(LaterProductsOfShards, HaveThoseBitsWhereTheStepMayBeginInsideTheSecondPart) {
  run_ranks(GetParam(), [](World& world) {
    const InputsKind kind{"GPT", [] { return InputsModel{testing_models::make_gpt()}; }};
    const Weights expected = undivided(kind, world.size());
    for (char opened_before : {'I', 'W'}) {
      const InputsModel staged = kind.make();
      auto sharded = shard(*staged.model.module, world);
      sharded.set_gradient_divisor(world.size() * kLaterBatches);
      AdamW optimizer(sharded, {.lr = kLaterRate});
      for (int64_t b = 0; b < kLaterSteps * kLaterBatches; ++b) {
        const bool is_last = (b + 1) % kLaterBatches == 0;
        const MicroBatch scope(sharded, b % kLaterBatches);
        const Tensor loss = staged.model.loss(b * world.size() + world.rank());
        std::optional<StepInBackward> in_backward;
        LaterProducts later;
        if (is_last && opened_before == 'I') in_backward.emplace(optimizer.step_in_backward());
        later.backward_to_inputs({loss}, {{}}, {});
        if (is_last && opened_before == 'W') in_backward.emplace(optimizer.step_in_backward());
        later.run();
        in_backward.reset();
        if (!is_last) continue;
        optimizer.step();
        optimizer.zero_grad();
      }
      EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*staged.model.module, sharded)),
                  IsEmpty())
          << "opened before " << opened_before;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, LaterProductsOfShards, drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{1, "shm"}, {2, "shm"}}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
