// Automatic units of models without equal blocks: their sizes, their order, and the bits of training with them.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <unordered_set>

#include "support/drawn.h"
#include "support/image_models.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing_models::ModelKind;
using torch::nn::Linear;
using torch::nn::ModuleList;
using torch::nn::Sequential;

int64_t total_of(const std::vector<UnitSummary>& units) {
  int64_t numel = 0;
  for (const UnitSummary& unit : units) numel += unit.numel;
  return numel;
}

double largest_share(const std::vector<UnitSummary>& units) {
  int64_t largest = 0;
  for (const UnitSummary& unit : units) largest = std::max(largest, unit.numel);
  return static_cast<double>(largest) / static_cast<double>(total_of(units));
}

std::vector<std::string> parameters_of(const std::vector<UnitSummary>& units) {
  std::vector<std::string> names;
  for (const UnitSummary& unit : units) names.insert(names.end(), unit.parameters.begin(), unit.parameters.end());
  return names;
}

std::vector<std::string> reasons(const torch::nn::Module& module) {
  std::vector<std::string> found;
  for (const UnitMembers& unit : units_automatic().divide(module)) {
    if (!unit.why_large.empty()) found.push_back(unit.name + ": " + unit.why_large);
  }
  return found;
}

class AutomaticUnits : public ::testing::TestWithParam<ModelKind> {};
INSTANTIATE_TEST_SUITE_P(Models, AutomaticUnits, ::testing::ValuesIn(testing_models::image_model_kinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AutomaticUnits, HoldAtMostTheirShareOfTheModel) {
  const auto model = GetParam().make();
  const auto units = preview_units(*model.module);
  EXPECT_LE(largest_share(units), kLargestUnitShare);
  EXPECT_THAT(reasons(*model.module), IsEmpty());
  EXPECT_LE(units.size(), 20u);
}

// Units are contiguous: those put together by size are, and so are blocks, beside which the rest is one more.
TEST_P(AutomaticUnits, HaveEachParameterOnceInTheOrderOfRegistration) {
  const auto model = GetParam().make();
  auto units = preview_units(*model.module);
  auto expected = model.module->named_parameters().keys();
  EXPECT_EQ(parameters_of(units).size(), expected.size());
  if (units[0].name == "root") {
    for (const std::string& name : units[0].parameters) std::erase(expected, name);
    units.erase(units.begin());
  }
  EXPECT_EQ(parameters_of(units), expected);
}

TEST_P(AutomaticUnits, OfAShardedModelAreThoseOfThePreview) {
  run_ranks(2, [](World& world) {
    const auto model = GetParam().make();
    const auto before = preview_units(*model.module);
    const auto after = shard(*model.module, world).units();
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].name, before[i].name);
      EXPECT_EQ(after[i].parameters, before[i].parameters);
      EXPECT_EQ(after[i].numel, before[i].numel);
      EXPECT_EQ(after[i].bytes, 4 * after[i].numel);
    }
  });
}

// Each model trains on three numbers of ranks.
class AutomaticUnitsBits : public AutomaticUnits {};
bool is_tried_always(const ModelKind& kind) { return kind.name == "UNet" || kind.name == "EfficientNet"; }
std::vector<ModelKind> image_models(bool tried_always) {
  auto kinds = testing_models::image_model_kinds();
  std::erase_if(kinds, [&](const ModelKind& kind) { return is_tried_always(kind) != tried_always; });
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Models, AutomaticUnitsBits,
                         fsdp::testing::drawn<ModelKind>(image_models(/*tried_always=*/true),
                                                         image_models(/*tried_always=*/false)),
                         [](const auto& info) { return info.param.name; });

TEST_P(AutomaticUnitsBits, GiveTheBitsOfOneProcess) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [](World& world) {
      testing_models::expect_same_bits(GetParam().make, world,
                                       {.steps = 3, .micro_batches = world.size(), .clip = 0.05});
    });
  }
}

class AutomaticUnitsOverGloo : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AutomaticUnitsOverGloo, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

// Its parameters are gathered in one order on every rank, and each unit is gathered once per pass.
TEST_P(AutomaticUnitsOverGloo, GiveTheBitsOfOneProcess) {
  run_ranks(fsdp::testing::Job{GetParam(), "gloo"}, [](World& world) {
    for (const ModelKind& kind : testing_models::image_model_kinds()) {
      SCOPED_TRACE(kind.name);
      testing_models::expect_same_bits(kind.make, world, {.steps = 3, .micro_batches = world.size()});
    }
  });
}

TEST(UnitsAutomatic, AParameterThatIsTooLargeIsNamedInOneWarning) {
  const auto model = testing_models::make_vgg_with_large_layer();
  EXPECT_THAT(reasons(*model.module), ElementsAre(AllOf(HasSubstr("classifier.0: "),
                                                        HasSubstr("the parameter classifier.0.weight alone has"))));
  const auto result = fsdp::testing::run_ranks_to_end(2, [](World& world) {
    const auto large = testing_models::make_vgg_with_large_layer();
    shard(*large.module, world);
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 0/2] warning: shard: units larger than the policy promises"),
                                   HasSubstr("classifier.0.weight"), HasSubstr("docs/memory.md"),
                                   Not(HasSubstr("rank 1/2] warning"))));
}

TEST(UnitsAutomatic, ARecurrentModuleStaysWholeAndTheWarningSaysWhy) {
  struct TaggerImpl : torch::nn::Module {
    TaggerImpl() {
      register_module("tokens", torch::nn::Embedding(100, 48));
      register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(48, 48).num_layers(3)));
      register_module("head", Linear(48, 10));
    }
  };
  EXPECT_THAT(reasons(TaggerImpl()), ElementsAre(HasSubstr("one operator takes all parameters of the module lstm")));
}

TEST(UnitsAutomatic, AModuleOfManyParametersIsCutBetweenThem) {
  struct ByHandImpl : torch::nn::Module {
    ByHandImpl() {
      for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
        register_parameter(name, torch::randn({64, 64}));
    }
  };
  const auto units = preview_units(ByHandImpl());
  EXPECT_THAT(units, SizeIs(8));
  EXPECT_THAT(parameters_of(units), ElementsAre("a", "b", "c", "d", "e", "f", "g", "h"));
}

// Equal blocks stay whole, though each has more than its share, and so do the experts in blocks of their own.
TEST(UnitsAutomatic, EqualBlocksStayWholeWhateverTheirShare) {
  const auto block = [] { return Sequential(Linear(64, 64), torch::nn::ReLU(), Linear(64, 64)); };
  const ModuleList blocks(block(), block());
  EXPECT_THAT(units_automatic().choose(*blocks), ElementsAre("0", "1"));
  EXPECT_THAT(reasons(*blocks), IsEmpty());
}

// A list of layers that grow is no container of equal blocks: the largest is cut again.
TEST(UnitsAutomatic, ALargeBlockWithoutAnEqualOneIsCutInside) {
  const auto block = [](int64_t width) {
    return Sequential(Linear(width, width), torch::nn::ReLU(), Linear(width, width));
  };
  const ModuleList blocks(block(32), block(64), block(128));
  const auto units = preview_units(*blocks, {.units = units_automatic({.largest_share = 0.4})});
  EXPECT_LE(largest_share(units), 0.4);
  EXPECT_EQ(parameters_of(units), blocks->named_parameters().keys());
}

// An embedding that holds half of a model of blocks, and a head that holds the other: blocks stay units.
TEST(UnitsAutomatic, AnEmbeddingAndAHeadThatAreTooLargeBecomeUnitsBesideTheBlocks) {
  struct LanguageImpl : torch::nn::Module {
    LanguageImpl() {
      register_module("tokens", torch::nn::Embedding(400, 32));
      auto blocks = register_module("blocks", ModuleList());
      for (int i = 0; i < 12; ++i) blocks->push_back(Linear(32, 32));
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
      register_module("head", Linear(32, 400));
    }
  };
  const auto units = preview_units(LanguageImpl());
  std::vector<std::string> names;
  for (const UnitSummary& unit : units) names.push_back(unit.name);
  EXPECT_THAT(names,
              ElementsAre("tokens", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "blocks.4", "blocks.5", "blocks.6",
                          "blocks.7", "blocks.8", "blocks.9", "blocks.10", "blocks.11", "norm", "head"));
}

// A unit of all that lies between the blocks would be gathered at each of these places.
TEST(UnitsAutomatic, ARestInManyPlacesBecomesUnitsBetweenTheBlocks) {
  struct StagesImpl : torch::nn::Module {
    StagesImpl() {
      for (const char* number : {"1", "2", "3", "4", "5"}) {
        register_module(std::string("between") + number, Linear(64, 8));
        register_module(std::string("pair") + number, Sequential(Linear(64, 64), Linear(64, 64)));
      }
    }
  };
  const StagesImpl model;
  const auto units = preview_units(model);
  EXPECT_THAT(units, SizeIs(15));
  EXPECT_EQ(parameters_of(units), model.named_parameters().keys());
}

TEST(UnitsAutomatic, ATiedParameterBelongsToTheUnitWhereItComesFirst) {
  struct TiedEndsImpl : torch::nn::Module {
    TiedEndsImpl() {
      auto first = register_module("first", Linear(64, 64));
      for (const char* name : {"second", "third", "fourth", "fifth"}) register_module(name, Linear(64, 64));
      auto last = register_module("last", std::make_shared<torch::nn::Module>());
      last->register_parameter("weight", first->weight);
      last->register_parameter("bias", torch::ones({64}));
    }
  };
  const auto parameters = parameters_of(preview_units(TiedEndsImpl()));
  EXPECT_THAT(std::unordered_set<std::string>(parameters.begin(), parameters.end()), SizeIs(parameters.size()));
  EXPECT_EQ(parameters.front(), "first.weight");
  EXPECT_EQ(parameters.back(), "last.bias");
}

TEST(UnitsAutomatic, FollowTheOrderOfUseThatTheyAreGiven) {
  struct TwoWaysImpl : torch::nn::Module {
    TwoWaysImpl() {
      for (const char* name : {"a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"}) register_module(name, Linear(64, 64));
    }
  };
  const std::vector<std::string> order{"d1.weight", "a1.weight", "b1.weight", "c1.weight",
                                       "d2.weight", "a2.weight", "b2.weight", "c2.weight"};
  const auto units = preview_units(TwoWaysImpl(), {.units = units_automatic({.order = order})});
  std::vector<std::string> names;
  for (const UnitSummary& unit : units) names.push_back(unit.name);
  EXPECT_THAT(names, ElementsAre("d1", "a1", "b1", "c1", "d2", "a2", "b2", "c2"));
  EXPECT_THAT(
      message_of<Error>([] { preview_units(TwoWaysImpl(), {.units = units_automatic({.order = {"e1.weight"}})}); }),
      AllOf(HasSubstr("no parameter e1.weight"), HasSubstr("order of use")));
}

TEST(UnitsAutomatic, LeaveIgnoredParametersOutOfTheShares) {
  const Sequential model(Linear(64, 64), Linear(64, 65), Linear(65, 66), Linear(66, 67), Linear(67, 68),
                         Linear(68, 4000));
  const Options options{.ignored = {"5.*"}};
  EXPECT_LE(largest_share(preview_units(*model, options)), kLargestUnitShare);
}

TEST(UnitsAutomatic, RefuseAShareOutOfRange) {
  for (const double share : {0.0, -1.0, 1.5})
    EXPECT_THAT(message_of<Error>([&] { units_automatic({.largest_share = share}); }),
                HasSubstr("found largest_share"));
}

TEST(PreviewUnits, HaveTheDtypesOfMixedPrecisionAndLeaveTheModuleAlone) {
  Sequential model(Linear(8, 8), torch::nn::BatchNorm1d(8));
  const auto units =
      preview_units(*model, {.mixed_precision = {.param_dtype = torch::kBFloat16, .buffer_dtype = torch::kHalf}});
  ASSERT_THAT(units, SizeIs(2));
  EXPECT_EQ(total_of(units), 64 + 8 + 16);
  EXPECT_EQ(units[0].bytes + units[1].bytes, 2 * 72 + 4 * 16);
  EXPECT_EQ(model->named_buffers()["1.running_mean"].scalar_type(), torch::kFloat32);
}

}  // namespace
}  // namespace fsdp
