// Which modules each policy chooses, and what `shard` makes of the choice.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using torch::nn::Embedding;
using torch::nn::EmbeddingImpl;
using torch::nn::Linear;
using torch::nn::LinearImpl;
using torch::nn::ModuleList;
using torch::nn::ReLU;
using torch::nn::Sequential;

struct BlockImpl : torch::nn::Module {
  BlockImpl() : up(register_module("up", Linear(4, 8))), down(register_module("down", Linear(8, 4))) {}
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::relu(up(x))); }

  Linear up, down;  // 40 and 36 elements
};
TORCH_MODULE(Block);

struct ExpertsBlockImpl : torch::nn::Module {
  ExpertsBlockImpl() : gate(register_module("gate", Linear(4, 3))), experts(register_module("experts", ModuleList())) {
    for (int i = 0; i < 3; ++i) experts->push_back(Block());
  }

  Linear gate;
  ModuleList experts;
};
TORCH_MODULE(ExpertsBlock);

// An embedding, two blocks and a head.
template <typename AnyBlock>
struct ModelOf : torch::nn::Module {
  ModelOf() {
    register_module("tokens", Embedding(5, 4));
    auto blocks = register_module("blocks", ModuleList());
    for (int i = 0; i < 2; ++i) blocks->push_back(AnyBlock());
    register_module("head", Linear(4, 5));
  }
};

TEST(UnitsOf, ChoosesEveryModuleOfTheTypes) {
  const ModelOf<Block> model;
  EXPECT_THAT(units_of<BlockImpl>().choose(model), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT((units_of<LinearImpl, EmbeddingImpl>().choose(model)),
              ElementsAre("tokens", "blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "head"));
  EXPECT_THAT(units_of<torch::nn::LSTMImpl>().choose(model), IsEmpty());
}

TEST(UnitsBy, SeesEveryModuleBelowTheRootByItsNameInNamedModules) {
  const auto model = std::make_shared<ModelOf<ExpertsBlock>>();
  const auto below = model->named_modules(/*name_prefix=*/"", /*include_self=*/false);
  std::vector<std::pair<std::string, const torch::nn::Module*>> seen, expected;
  const auto policy = units_by([&](const std::string& name, const torch::nn::Module& module) {
    seen.emplace_back(name, &module);
    return true;
  });
  EXPECT_THAT(policy.choose(*model), ElementsAreArray(below.keys()));
  for (const auto& module : below) expected.emplace_back(module.key(), module.value().get());
  EXPECT_EQ(seen, expected);
}

TEST(UnitsBy, ChoosesTheModulesForWhichItHolds) {
  const ModelOf<Block> model;
  const auto policy = units_by([](const std::string& name, const auto&) { return name.ends_with(".up"); });
  EXPECT_THAT(policy.choose(model), ElementsAre("blocks.0.up", "blocks.1.up"));
}

TEST(UnitsBySize, ChoosesTheSmallestModulesThatAreLargeEnough) {
  const ModelOf<Block> model;  // tokens 20, each block 40 + 36, head 25
  EXPECT_THAT(units_by_size(1).choose(model),
              ElementsAre("tokens", "blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "head"));
  EXPECT_THAT(units_by_size(40).choose(model), ElementsAre("blocks.0.up", "blocks.1.up"));
  EXPECT_THAT(units_by_size(41).choose(model), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(units_by_size(76).choose(model), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(units_by_size(77).choose(model), ElementsAre("blocks"));
  EXPECT_THAT(units_by_size(1000).choose(model), IsEmpty());
}

TEST(UnitsBySize, RefusesASizeThatIsNotPositive) {
  EXPECT_THAT(message_of<Error>([] { units_by_size(0); }), HasSubstr("units_by_size: found 0"));
  EXPECT_THAT(message_of<Error>([] { units_by_size(-3); }), HasSubstr("units_by_size: found -3"));
}

TEST(UnitsAutomatic, ChoosesTheBlocksOfAModuleList) {
  EXPECT_THAT(units_automatic().choose(ModelOf<Block>()), ElementsAre("blocks.0", "blocks.1"));
}

TEST(UnitsAutomatic, ChoosesBlocksAndNeverTheExpertsInThem) {
  EXPECT_THAT(units_automatic().choose(ModelOf<ExpertsBlock>()), ElementsAre("blocks.0", "blocks.1"));
}

TEST(UnitsAutomatic, ChoosesDenseBlocksAndMixturesOfExpertsInTurnAndNeverTheExperts) {
  struct ModelImpl : torch::nn::Module {
    ModelImpl() : blocks(register_module("blocks", ModuleList())) {
      for (int i = 0; i < 2; ++i) {
        blocks->push_back(Block());
        blocks->push_back(ExpertsBlock());
      }
    }
    ModuleList blocks;
  };
  EXPECT_THAT(units_automatic().choose(ModelImpl()), ElementsAre("blocks.0", "blocks.1", "blocks.2", "blocks.3"));
}

TEST(UnitsAutomatic, ChoosesTheModulesOfARootThatIsItselfAContainerOfEqualOnes) {
  EXPECT_THAT(units_automatic().choose(*Sequential(Block(), Block(), Block())), ElementsAre("0", "1", "2"));
  EXPECT_THAT(units_automatic().choose(*ModuleList(Linear(2, 3), Linear(3, 4))), ElementsAre("0", "1"));
}

TEST(UnitsAutomatic, LooksInsideContainersOfUnlikeModules) {
  EXPECT_THAT(units_automatic().choose(*Sequential(Linear(2, 2), ReLU(), Linear(2, 2))), IsEmpty());
  EXPECT_THAT(units_automatic().choose(*ModuleList(Linear(2, 2), Sequential(Linear(2, 2), Linear(2, 2)))),
              ElementsAre("1.0", "1.1"));
}

TEST(UnitsAutomatic, ChoosesNoModulesWithoutParametersAndNoSingleBlock) {
  EXPECT_THAT(units_automatic().choose(*Sequential(ReLU(), ReLU())), IsEmpty());
  EXPECT_THAT(units_automatic().choose(*Sequential(Block())), IsEmpty());
}

// Each unit's name and its parameters' names.
using Units = std::vector<std::pair<std::string, std::vector<std::string>>>;

Units units_in(const ShardedModel& sharded) {
  Units units;
  for (const auto& unit : sharded.model().units()) {
    auto& [name, parameters] = units.emplace_back(unit->name, std::vector<std::string>());
    for (const auto& parameter : unit->parameters) parameters.push_back(parameter.name());
  }
  return units;
}

TEST(Shard, PutsAParameterIntoTheInnermostChosenModuleAndTheRestFirst) {
  run_ranks(1, [](World& world) {
    ModelOf<Block> model;
    const UnitPolicy policy([](const auto&) { return std::vector<std::string>{"blocks.1.down", "blocks.1"}; });
    auto sharded = shard(model, world, {.units = policy});
    EXPECT_EQ(units_in(sharded), (Units{{"root",
                                         {"tokens.weight", "blocks.0.up.weight", "blocks.0.up.bias",
                                          "blocks.0.down.weight", "blocks.0.down.bias", "head.weight", "head.bias"}},
                                        {"blocks.1.down", {"blocks.1.down.weight", "blocks.1.down.bias"}},
                                        {"blocks.1", {"blocks.1.up.weight", "blocks.1.up.bias"}}}));
  });
}

TEST(Shard, KeepsModulesWhoseNamesBeginAlikeApart) {
  run_ranks(1, [](World& world) {
    torch::nn::Module model;
    model.register_module("part", Linear(2, 2));
    model.register_module("part2", Linear(2, 2));
    const auto policy = units_by([](const std::string& name, const auto&) { return name == "part"; });
    auto sharded = shard(model, world, {.units = policy});
    EXPECT_EQ(units_in(sharded),
              (Units{{"root", {"part2.weight", "part2.bias"}}, {"part", {"part.weight", "part.bias"}}}));
  });
}

TEST(Shard, MakesNoUnitOfAModuleWithoutParameters) {
  run_ranks(1, [](World& world) {
    Sequential model(Linear(2, 2), ReLU());
    auto sharded = shard(*model, world, {.units = units_by([](const auto&...) { return true; })});
    EXPECT_EQ(units_in(sharded), (Units{{"0", {"0.weight", "0.bias"}}}));
  });
}

// Two modules that share a weight: y = (x W^T) W^T.
struct TiedImpl : torch::nn::Module {
  TiedImpl() : weight(torch::randn({3, 3})) {
    for (const char* name : {"first", "second"}) {
      auto module = register_module(name, std::make_shared<torch::nn::Module>());
      weight = module->register_parameter("weight", weight);
      module->register_parameter("own", torch::ones({3}));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(torch::linear(x, weight), weight); }

  torch::Tensor weight;
};

class ShardOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShardOnRanks, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(ShardOnRanks, PutsATiedParameterOnceWhereItComesFirst) {
  run_ranks(GetParam(), [](World& world) {
    torch::manual_seed(1);
    TiedImpl model;
    const torch::Tensor x = torch::randn({4, 3});
    auto plain = model.weight.detach().clone().requires_grad_();
    torch::linear(torch::linear(x, plain), plain).sum().backward();

    auto sharded = shard(model, world, {.units = units_by([](const auto&...) { return true; })});
    EXPECT_EQ(units_in(sharded), (Units{{"first", {"first.weight", "first.own"}}, {"second", {"second.own"}}}));
    model.forward(x).sum().backward();
    sharded.clip_grad_norm_(1e9);  // ends the sum of the ranks' equal gradients, and makes their mean of it
    const ShardedParameter& tied = sharded.parameters()[0];
    EXPECT_EQ(tied.shape, (std::vector<int64_t>{3, 3}));
    if (world.rank() == 0) {  // holds all of it
      EXPECT_TRUE(torch::equal(tied.piece.grad().view({3, 3}), plain.grad()));
    }
  });
}

TEST_P(ShardOnRanks, LeavesIgnoredParametersAloneAndTrainable) {
  run_ranks(GetParam(), [](World& world) {
    torch::manual_seed(1 + world.rank());  // what is ignored may differ between ranks
    Linear body(3, 3), head(3, 2);
    Sequential model(body, head);
    const torch::Tensor before = head->weight.detach().clone();
    auto sharded = shard(*model, world, {.ignored = {"1.*"}});
    EXPECT_EQ(units_in(sharded), (Units{{"0", {"0.weight", "0.bias"}}}));
    EXPECT_TRUE(torch::equal(head->weight, before));

    torch::optim::SGD optimizer(head->parameters(), 0.5);
    const torch::Tensor x = torch::ones({2, 3});
    model->forward(x).sum().backward();
    const torch::Tensor expected = before - 0.5 * body->forward(x).detach().sum(0).expand({2, 3});
    optimizer.step();
    EXPECT_TRUE(torch::equal(head->weight, expected));
    EXPECT_TRUE(sharded.parameters()[0].piece.grad().defined());
  });
}

TEST_P(ShardOnRanks, LeavesIgnoredBuffersAlone) {
  run_ranks(GetParam(), [](World& world) {
    Linear body(3, 3);
    torch::nn::BatchNorm1d norm(3);
    Sequential model(body, norm);
    model->register_buffer("scale", torch::ones({3}));
    norm->running_mean.fill_(1.0 / 3 + world.rank());  // what is ignored may differ between ranks
    const torch::Tensor before = norm->running_mean.clone();
    auto sharded =
        shard(*model, world, {.mixed_precision = {.buffer_dtype = torch::kBFloat16}, .ignored = {"1.*", "scale"}});
    EXPECT_TRUE(torch::equal(norm->running_mean, before));
    EXPECT_EQ(norm->running_mean.scalar_type(), torch::kFloat32);
    EXPECT_EQ(model->named_buffers()["scale"].scalar_type(), torch::kFloat32);
    EXPECT_THAT(sharded.buffers(), ::testing::IsEmpty());
  });
}

// Of tied parameters the first name counts: with it both are left alone, with the second alone neither is.
TEST_P(ShardOnRanks, IgnoresATiedParameterByItsFirstName) {
  run_ranks(GetParam(), [](World& world) {
    for (const UnitPolicy& units : {units_by([](const auto&...) { return true; }), units_automatic()}) {
      TiedImpl model, whole, second, both;
      auto sharded = shard(model, world, {.units = units, .ignored = {"first.weight"}});
      for (const ShardedParameter& one : sharded.parameters()) EXPECT_THAT(one.name, ::testing::EndsWith(".own"));
      EXPECT_EQ(model.weight.const_data_ptr<float>(), model.parameters()[0].const_data_ptr<float>());  // as it was
      EXPECT_THAT(message_of<Error>([&] { shard(second, world, {.units = units, .ignored = {"second.weight"}}); }),
                  AllOf(HasSubstr("'second.weight' in options.ignored matches no parameter"),
                        HasSubstr("For tied ones the first name counts")));
      auto sharded_both = shard(both, world, {.units = units, .ignored = {"*.weight"}});
      EXPECT_EQ(sharded_both.parameters().size(), 2u);
    }
  });
}

TEST_P(ShardOnRanks, IgnoresABufferOfTwoNamesByItsFirst) {
  run_ranks(GetParam(), [](World& world) {
    const auto make = [] {
      Sequential model(Linear(3, 3), Linear(3, 3));
      const torch::Tensor shared = torch::ones({3});
      for (const auto& layer : model->children()) layer->register_buffer("scale", shared);
      return model;
    };
    const MixedPrecision precision{.buffer_dtype = torch::kBFloat16};
    auto ignored = make(), kept = make(), by_second = make();
    auto sharded = shard(*ignored, world, {.mixed_precision = precision, .ignored = {"0.scale"}});
    EXPECT_THAT(sharded.buffers(), IsEmpty());
    EXPECT_EQ(ignored->buffers()[1].scalar_type(), torch::kFloat32);
    EXPECT_THAT(message_of<Error>([&] { shard(*by_second, world, {.ignored = {"1.scale"}}); }),
                HasSubstr("'1.scale' in options.ignored matches no parameter or buffer"));
    MixedPrecision keeps = precision;
    keeps.keep = {"0"};
    auto sharded_kept = shard(*kept, world, {.mixed_precision = keeps});
    EXPECT_EQ(kept->buffers()[1].scalar_type(), torch::kFloat32);
  });
}

TEST(Shard, IgnoredPatternsWithUnitsGivenByHandAreAnError) {
  run_ranks(1, [](World& world) {
    auto first = torch::ones({3}, torch::requires_grad());
    EXPECT_THAT(message_of<Error>([&] {
                  shard(std::vector<NamedUnit>{{"a", {{"first", first}}, {}}}, world, {.ignored = {"first"}});
                }),
                AllOf(HasSubstr("options.ignored"), HasSubstr("Leave the tensors out of the units")));
  });
}

TEST(Shard, AnIgnoredPatternThatMatchesNothingIsAnErrorThatNamesIt) {
  run_ranks(1, [](World& world) {
    Sequential model(Linear(3, 3));
    try {
      shard(*model, world, {.ignored = {"0.bias", "1.*"}});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the pattern '1.*' in options.ignored matches no parameter"));
    }
  });
}

TEST(Shard, AParameterInTwoUnitsIsAnErrorThatNamesIt) {
  run_ranks(1, [](World& world) {
    auto shared = torch::ones({3}, torch::requires_grad()), own = torch::ones({3}, torch::requires_grad());
    EXPECT_THAT(message_of<Error>([&] {
                  shard(std::vector<NamedUnit>{{"a", {{"a.shared", shared}}, {}},
                                               {"b", {{"b.own", own}, {"b.shared", shared}}, {}}},
                        world);
                }),
                AllOf(HasSubstr("unit=b"), HasSubstr("b.shared is in two units")));
  });
}

TEST(Shard, AParameterThatIsComputedFromOthersIsAnErrorThatSaysWhatToDo) {
  run_ranks(1, [](World& world) {
    const auto source = torch::ones({3}, torch::requires_grad());
    EXPECT_THAT(message_of<Error>([&] {
                  shard(std::vector<NamedUnit>{{"a", {{"double", source * 2}}, {}}}, world);
                }),
                AllOf(HasSubstr("double is computed from others"), HasSubstr("detach()")));
  });
}

TEST(Shard, ParametersThatShareMemoryAreAnErrorThatNamesBoth) {
  run_ranks(1, [](World& world) {
    Linear first(3, 3), second(3, 3);
    second->weight.set_data(first->weight);
    Sequential model(first, second);
    EXPECT_THAT(message_of<Error>([&] { shard(*model, world); }),
                AllOf(HasSubstr("0.weight and 1.weight share memory"), HasSubstr("register_parameter")));
    Linear part(3, 2);
    part->weight.set_data(first->weight.slice(0, 1, 3));
    Sequential overlapping(part, first);
    EXPECT_THAT(message_of<Error>([&] { shard(*overlapping, world); }), HasSubstr("0.weight and 1.weight share"));
  });
}

TEST(Shard, ParametersThatLieBesideEachOtherInOneStorageAreSharded) {
  run_ranks(1, [](World& world) {
    const torch::Tensor flat = torch::arange(18).to(torch::kFloat);
    Linear first(3, 3), second(3, 3);
    first->weight.set_data(flat.slice(0, 0, 9).view({3, 3}));
    second->weight.set_data(flat.slice(0, 9, 18).view({3, 3}));
    Sequential model(first, second);
    auto sharded = shard(*model, world);
    EXPECT_TRUE(torch::equal(sharded.full_state()[0].second, torch::arange(9).to(torch::kFloat).view({3, 3})));
  });
}

TEST(Shard, TakesUnitsGivenByHandAsTheyAre) {
  run_ranks(1, [](World& world) {
    auto first = torch::ones({3}, torch::requires_grad()), second = torch::ones({3}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"b", {{"second", second}}, {}}, {"a", {{"first", first}}, {}}}, world);
    EXPECT_EQ(units_in(sharded), (Units{{"b", {"second"}}, {"a", {"first"}}}));
  });
}

}  // namespace
}  // namespace fsdp
