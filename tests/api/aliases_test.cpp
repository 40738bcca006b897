// Tensors that share memory with a parameter and were made before `shard`: they would keep the values of that time.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scripted_model.h"
#include "support/tied_models.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::Tensor;
namespace nn = torch::nn;

constexpr const char* kWarning = "warning: shard: other tensors hold the memory of";

// A linear layer, and what a constructor makes of its weight.
struct WithBufferImpl : nn::Module {
  explicit WithBufferImpl(const std::function<Tensor(const Tensor&)>& make)
      : linear(register_module("linear", nn::Linear(4, 3))), k(register_buffer("k", make(linear->weight))) {}
  nn::Linear linear;
  Tensor k;
};
TORCH_MODULE(WithBuffer);

struct WithMemberImpl : nn::Module {
  WithMemberImpl() : linear(register_module("linear", nn::Linear(4, 3))), kept(linear->weight.detach()) {}
  nn::Linear linear;
  Tensor kept;
};
TORCH_MODULE(WithMember);

TEST(Aliases, ABufferThatSharesMemoryWithAParameterIsAnErrorThatNamesBoth) {
  run_ranks(1, [](World& world) {
    const auto refused = AllOf(HasSubstr("buffer k"), HasSubstr("parameter linear.weight"), HasSubstr("clone()"));
    for (const auto& make : std::vector<std::function<Tensor(const Tensor&)>>{
             [](const Tensor& weight) { return weight.detach(); },
             [](const Tensor& weight) { return weight.detach()[1]; },
             [](const Tensor& weight) { return weight.detach().t(); },
             [](const Tensor& weight) { return weight.detach().slice(1, 0, 4, 2); },
             [](const Tensor& weight) { return weight.detach().view(torch::kInt32); }}) {
      WithBuffer model(make), deferred = deferred_init([&] { return WithBuffer(make); });
      EXPECT_THAT(message_of<Error>([&] { shard(*model, world); }), refused);
      EXPECT_THAT(message_of<Error>([&] { shard(*deferred, world); }), refused);
    }
  });
}

TEST(Aliases, ABufferOfUnitsByHandIsFoundAsWell) {
  run_ranks(1, [](World& world) {
    const Tensor weight = torch::ones({3}, torch::requires_grad());
    EXPECT_THAT(message_of<Error>([&] {
                  shard(std::vector<NamedUnit>{{"a", {{"w", weight}}, {{"k", weight.detach()}}}}, world);
                }),
                AllOf(HasSubstr("buffer k"), HasSubstr("parameter w")));
  });
}

TEST(Aliases, AnIgnoredTensorThatSharesMemoryWithAParameterIsAnError) {
  run_ranks(1, [](World& world) {
    nn::Linear first(3, 3), second(3, 3);
    second->weight.set_data(first->weight);
    nn::Sequential model(first, second);
    EXPECT_THAT(message_of<Error>([&] { shard(*model, world, {.ignored = {"1.*"}}); }),
                AllOf(HasSubstr("1.weight"), HasSubstr("0.weight"), HasSubstr("share memory")));
    WithBuffer with_buffer([](const Tensor& weight) { return weight.detach(); });
    EXPECT_THAT(message_of<Error>([&] { shard(*with_buffer, world, {.ignored = {"k"}}); }),
                AllOf(HasSubstr("k"), HasSubstr("linear.weight")));
  });
}

TEST(Aliases, BuffersBesideTheParametersOfTheirStorageAreFine) {
  run_ranks(1, [](World& world) {
    const auto make = [] {
      nn::Linear linear(3, 3);
      const Tensor flat = torch::arange(18).to(torch::kFloat);
      linear->weight.set_data(flat.slice(0, 0, 9).view({3, 3}));
      linear->register_buffer("rest", flat.slice(0, 9, 18));
      const Tensor columns = torch::arange(6).to(torch::kFloat).view({3, 2});
      linear->bias.set_data(columns.select(1, 0));
      linear->register_buffer("column", columns.select(1, 1));
      return linear;
    };
    auto linear = make();
    auto sharded = shard(*linear, world);
    EXPECT_TRUE(torch::equal(linear->named_buffers()["rest"], torch::arange(9, 18).to(torch::kFloat)));
  });
}

// Each makes a module and shards it; the warnings are in the output.
std::string output_of(const std::function<void(World&)>& body, int ranks = 1) {
  const auto result = run_ranks_to_end(ranks, body);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(AliasWarnings, AMemberThatIsADetachIsNamedOnceByRank0) {
  const std::string output = output_of(
      [](World& world) {
        WithMember model;
        auto sharded = shard(*model, world);
      },
      2);
  EXPECT_THAT(output, AllOf(HasSubstr(kWarning), HasSubstr("linear.weight"), HasSubstr("after fsdp::shard"),
                            Not(HasSubstr("linear.bias"))));
  EXPECT_EQ(count(output, kWarning), 1) << output;
}

TEST(AliasWarnings, AViewOutsideOfTheModuleIsFound) {
  EXPECT_THAT(output_of([](World& world) {
                nn::Linear model(4, 3);
                const std::vector<Tensor> average{model->weight.detach(), model->bias.view({3, 1})};
                auto sharded = shard(*model, world);
              }),
              AllOf(HasSubstr(kWarning), HasSubstr("weight"), HasSubstr("bias")));
}

TEST(AliasWarnings, AnAliasOfUnitsByHandIsFound) {
  EXPECT_THAT(output_of([](World& world) {
                const Tensor weight = torch::ones({3}, torch::requires_grad()), kept = weight.detach();
                auto sharded = shard(std::vector<NamedUnit>{{"a", {{"w", weight}}, {}}}, world);
              }),
              AllOf(HasSubstr(kWarning), HasSubstr("w")));
}

TEST(AliasWarnings, TheTensorThatParametersAreViewsOfIsFound) {
  EXPECT_THAT(output_of([](World& world) {
                const Tensor flat = torch::arange(18).to(torch::kFloat);
                std::vector<NamedUnit> units{{"a", {}, {}}};
                for (int64_t i = 0; i < 2; ++i) {
                  units[0].parameters.emplace_back("w" + std::to_string(i),
                                                   flat.slice(0, 9 * i, 9 * i + 9).set_requires_grad(true));
                }
                auto sharded = shard(units, world);
              }),
              AllOf(HasSubstr(kWarning), HasSubstr("w0, w1")));
}

TEST(AliasWarnings, AnAliasOfADeferredParameterIsFoundAndSaysSoWhenItIsUsed) {
  EXPECT_THAT(output_of([](World& world) {
                WithMember model = deferred_init([] { return WithMember(); });
                auto sharded = shard(*model, world);
                const auto explained = AllOf(HasSubstr("linear.weight"), HasSubstr("before fsdp::shard"),
                                             Not(HasSubstr("Call fsdp::shard")), Not(HasSubstr("materialize")));
                EXPECT_THAT(message_of<Error>([&] { (void)model->kept.sum(); }), explained);
                EXPECT_THAT(message_of<Error>([&] { model->kept.mul_(2); }), explained);
                EXPECT_THAT(message_of([&] { model->kept.data_ptr<float>(); }), explained);
              }),
              AllOf(HasSubstr(kWarning), HasSubstr("linear.weight")));
}

// Valid programs, in which a parameter has several holders and no alias.
TEST(AliasWarnings, AreNotWrittenForOtherHolders) {
  const std::string output = output_of([](World& world) {
    {
      nn::Linear model(4, 3);
      const std::vector<Tensor> handles = model->parameters();
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      const Tensor average = model->weight.detach().clone();
      model->forward(torch::ones({2, 4})).sum().backward();
      optimizer.step();
      auto sharded = shard(*model, world);
    }
    {
      const auto tied = testing_models::make_tied(testing_models::Tied::Across);
      tied.loss(0).backward();
      auto sharded = shard(*tied.module, world);
    }
    {
      auto scripted = testing_models::make_scripted();
      auto sharded = shard(scripted, world);
    }
    {
      nn::LSTM recurrent(nn::LSTMOptions(4, 5).num_layers(2).bidirectional(true));
      recurrent->forward(torch::ones({2, 3, 4}));
      auto sharded = shard(*recurrent, world);
    }
    {
      nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(4, 2));
      auto sharded = shard(*attention, world);
    }
    {
      nn::Linear first(3, 3), second(3, 3);
      {
        const Tensor flat = torch::arange(18).to(torch::kFloat);
        first->weight.set_data(flat.slice(0, 0, 9).view({3, 3}));
        second->weight.set_data(flat.slice(0, 9, 18).view({3, 3}));
        second->register_parameter("none", flat.slice(0, 18, 18));
      }
      nn::Sequential model(first, second);
      auto sharded = shard(*model, world);
    }
    {
      std::vector<NamedUnit> units{{"a", {}, {}}};
      {
        const Tensor flat = torch::arange(18).to(torch::kFloat);
        units[0].parameters.emplace_back("v", flat.slice(0, 0, 9).set_requires_grad(true));
        units[0].parameters.emplace_back("w", flat.slice(0, 9, 18).view({3, 3}).set_requires_grad(true));
      }
      auto sharded = shard(units, world);
    }
    {
      std::vector<float> memory(9, 1.f);
      nn::Linear model(3, 3);
      model->weight.set_data(torch::from_blob(memory.data(), {3, 3}));
      auto sharded = shard(*model, world);
    }
    {
      nn::BatchNorm1d model(3);
      model->to(torch::kBFloat16);
      auto sharded = shard(*model, world);
    }
    {
      auto model = deferred_init([] { return nn::Sequential(nn::Linear(3, 3), nn::LSTM(3, 3)); });
      model->apply([](nn::Module& module) {
        torch::NoGradGuard no_grad;
        if (auto* linear = module.as<nn::Linear>()) linear->weight.normal_();
      });
      auto sharded = shard(*model, world);
    }
    {
      auto model = deferred_init([] { return nn::Linear(3, 3); });
      auto sharded = shard(*model, world, {.initialise = false});
      sharded.initialise();
    }
  });
  EXPECT_THAT(output, Not(HasSubstr(kWarning)));
}

// Two tensors made of one pointer have storages of their own.
TEST(Aliases, ParametersOverOneForeignPointerAreAnError) {
  run_ranks(1, [](World& world) {
    std::vector<float> memory(12, 1.f);
    nn::Linear first(3, 3), second(3, 3);
    first->weight.set_data(torch::from_blob(memory.data(), {3, 3}));
    second->weight.set_data(torch::from_blob(memory.data() + 3, {3, 3}));
    nn::Sequential model(first, second);
    EXPECT_THAT(message_of<Error>([&] { shard(*model, world); }), HasSubstr("0.weight and 1.weight share memory"));
  });
}

TEST(Aliases, ColumnsThatOverlapAreAnErrorAndOthersAreNot) {
  run_ranks(1, [](World& world) {
    const auto make = [](int64_t first_end) {
      const Tensor both = torch::arange(12).to(torch::kFloat).view({3, 4});
      nn::Linear first(first_end, 3), second(2, 3);
      first->weight.set_data(both.slice(1, 0, first_end));
      second->weight.set_data(both.slice(1, 2, 4));
      return nn::Sequential(first, second);
    };
    auto apart = make(2), overlapping = make(3);
    auto sharded = shard(*apart, world);
    EXPECT_THAT(message_of<Error>([&] { shard(*overlapping, world); }), HasSubstr("share memory"));
  });
}

}  // namespace
}  // namespace fsdp
