// Muon over shards gives each matrix what one process gives the whole one, and the rest what AdamW gives.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "optim/training.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences_after;
using testing_models::kMicroBatches;
using testing_models::make_gpt;
using testing_models::make_two_linears;
using testing_models::MakeOptimizer;
using testing_models::TestModel;
using testing_models::WholeParameter;
using testing_models::WholeUpdate;

class MuonOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MuonOnRanks, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

MakeOptimizer muon(const MuonOptions& options) {
  return [=](ShardedModel& sharded) { return std::make_unique<Muon>(sharded, options); };
}

// The iteration as its author writes it.
torch::Tensor newton_schulz(torch::Tensor x, torch::ScalarType dtype) {
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = x.t();
  x = (x / (x.norm() + 1e-7)).to(dtype);
  for (int i = 0; i < 5; ++i) {
    const torch::Tensor a = x.mm(x.t());
    const torch::Tensor b = torch::addmm(a, a, a, -4.7750, 2.0315);
    x = torch::addmm(x, b, x, 3.4445);
  }
  x = x.to(torch::kFloat32);
  return tall ? x.t() : x;
}

void step_matrix(WholeParameter& parameter, const MuonOptions& with) {
  torch::Tensor& momentum = parameter.states[0];
  const torch::Tensor gradient = parameter.value.grad();
  momentum.mul_(with.momentum).add_(gradient);
  const torch::Tensor direction = with.nesterov ? gradient.add(momentum, with.momentum) : momentum;
  const torch::Tensor matrix = direction.reshape({direction.size(0), -1}).contiguous();
  const auto rows = static_cast<double>(matrix.size(0)), columns = static_cast<double>(matrix.size(1));
  const double factor = with.scale == MuonScale::LikeAdamW ? 0.2 * std::sqrt(std::max(rows, columns))
                                                           : std::sqrt(std::max(1.0, rows / columns));
  parameter.value.mul_(1 - with.lr * with.weight_decay);
  parameter.value.add_(newton_schulz(matrix, with.dtype).view_as(parameter.value), -with.lr * factor);
}

void step_other(WholeParameter& parameter, const AdamWOptions& with) {
  at::_fused_adamw_({parameter.value}, {parameter.value.grad()}, {parameter.states[0]}, {parameter.states[1]}, {},
                    {parameter.steps}, with.lr, with.beta1, with.beta2, with.weight_decay, with.eps, false, false);
}

// The first group's matrices are those of "down" layers.
WholeUpdate whole_muon(const MuonOptions& options) {
  return [=](WholeParameter& parameter) {
    const bool embedding = parameter.name == "tokens.weight" || parameter.name == "positions.weight";
    if (parameter.value.dim() < 2 || embedding || parameter.name == "head.weight") {
      return step_other(parameter, options.adamw);
    }
    MuonOptions with = options;
    if (!options.groups.empty() && parameter.name.find(".down.") != std::string::npos) {
      with.lr = options.groups[0].lr.value_or(with.lr);
      with.momentum = options.groups[0].momentum.value_or(with.momentum);
      with.weight_decay = options.groups[0].weight_decay.value_or(with.weight_decay);
    }
    step_matrix(parameter, with);
  };
}

TEST_P(MuonOnRanks, GivesTheBitsOfWholeMatrices) {
  run_ranks(GetParam(), [](World& world) {
    const MuonOptions grouped{
        .lr = 2e-2,
        .scale = MuonScale::Spectral,
        .dtype = torch::kFloat32,
        .adamw = {.lr = 1e-2},
        .groups = {{.patterns = {"*.down.*"}, .lr = 5e-2, .weight_decay = 0.5, .momentum = 0.75}}};
    auto gpt = [] { return make_gpt(); };
    EXPECT_THAT(differences_after(3, world, gpt, muon({.lr = 2e-2}), whole_muon({.lr = 2e-2})), IsEmpty());
    EXPECT_THAT(differences_after(3, world, gpt, muon(grouped), whole_muon(grouped)), IsEmpty());
  });
}

// A matrix that several ranks hold in the same pieces is updated by one of them, or by each for itself.
TEST(MuonOnReplicas, GivesTheBitsOfWholeMatrices) {
  const MuonOptions with{.lr = 2e-2};
  for (Strategy strategy : {Strategy::HybridShard, Strategy::NoShard}) {
    run_ranks(4, [&](World& world) {
      const Options options{.strategy = strategy, .shard_group_size = strategy == Strategy::NoShard ? 0 : 2};
      EXPECT_THAT(differences_after(
                      2, world, [] { return make_gpt(); }, muon(with), whole_muon(with), options),
                  IsEmpty());
    });
  }
}

TEST_P(MuonOnRanks, AMatrixUnusedInAStepIsSkipped) {
  run_ranks(GetParam(), [](World& world) {
    const MuonOptions options{.lr = 2e-2, .nesterov = false};
    EXPECT_THAT(differences_after(3, world, make_two_linears, muon(options), whole_muon(options)), IsEmpty());
  });
}

// Whose second layer is used in the last micro-batch of each step, so by one rank.
TestModel make_two_linears_one_used_once() {
  TestModel model = make_two_linears();
  return {model.module, [loss = model.loss](int64_t b) {
            const int64_t in_step = b % kMicroBatches;
            return loss(in_step == kMicroBatches - 1 ? b + 2 * kMicroBatches : in_step + kMicroBatches);
          }};
}

TEST_P(MuonOnRanks, AMatrixUsedByOneRankIsSteppedByAll) {
  run_ranks(GetParam(), [](World& world) {
    const MuonOptions options{.lr = 2e-2};
    EXPECT_THAT(differences_after(3, world, make_two_linears_one_used_once, muon(options), whole_muon(options)),
                IsEmpty());
  });
}

// Convolutions whose weights lie channels-last, so that a row of the matrix is not a run of memory.
TestModel make_channels_last_convolutions() {
  for (const auto& kind : testing_models::model_kinds()) {
    if (kind.name != "convolutions") continue;
    TestModel model = kind.make();
    for (auto& parameter : model.module->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
    return model;
  }
  return {};
}

TEST_P(MuonOnRanks, AConvolutionIsAMatrixWhateverItsStrides) {
  run_ranks(GetParam(), [](World& world) {
    const MuonOptions options{.lr = 2e-2};
    EXPECT_THAT(differences_after(2, world, make_channels_last_convolutions, muon(options), whole_muon(options)),
                IsEmpty());
  });
}

TEST_P(MuonOnRanks, KeepsOneStateForMatricesAndTwoForTheRest) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_two_linears();
    auto sharded = shard(*model.module, world);
    Muon optimizer(sharded, {.matrices = {"always.*"}});
    const auto state = optimizer.state();
    int64_t bytes = 0;
    for (const auto& element : state.elements) {
      for (size_t i = 0; i < element.tensors.size(); ++i) {
        const bool matrix = sharded.parameters()[i].name == "always.weight";
        EXPECT_EQ(element.tensors[i].defined(), matrix == (element.name == "momentum_buffer")) << element.name << i;
        if (element.tensors[i].defined()) bytes += static_cast<int64_t>(element.tensors[i].nbytes());
      }
    }
    EXPECT_EQ(state.elements.size(), 3u);
    EXPECT_EQ(state.scalars.size(), 1u);
    EXPECT_EQ(sharded.memory().optimizer_bytes, bytes);
  });
}

TEST_P(MuonOnRanks, SettingsThatCannotBeAreErrorsThatNameThem) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    auto refused = [&](const MuonOptions& options) { return message_of<Error>([&] { Muon one(sharded, options); }); };
    EXPECT_THAT(refused({.lr = -1}), HasSubstr("Muon: found lr -1"));
    EXPECT_THAT(refused({.adamw = {.beta2 = 1}}), HasSubstr("Muon's AdamW: found beta2 1,"));
    EXPECT_THAT(refused({.dtype = torch::kInt32}), HasSubstr("dtype Int"));
    EXPECT_THAT(refused({.matrices = {"*.bias"}}), AllOf(HasSubstr("no parameter is a matrix"), HasSubstr("*.bias")));
    EXPECT_THAT(refused({.groups = {{.patterns = {"*.bias"}}}}), HasSubstr("'*.bias' matches no parameter"));
    EXPECT_THAT(refused({.groups = {{.patterns = {"*"}, .eps = 0}}}), HasSubstr("sets eps"));
    EXPECT_EQ(refused({.adamw = {.groups = {{.patterns = {"*.bias"}}}}}), "no error");
  });
}

}  // namespace
}  // namespace fsdp
