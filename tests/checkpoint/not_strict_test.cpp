// A checkpoint of a model that is not quite this one: an error that names all differences, or, with strict off, what
// fits is loaded, the rest is as it was, and nothing goes unsaid.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr int64_t kWidth = 12, kRows = 30, kMoreRows = 50;  // no multiple of a block's 64 elements

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t rows, const std::vector<std::string>& layers)
      : tokens(register_module("tokens", torch::nn::Embedding(rows, kWidth))) {
    for (const std::string& name : layers) {
      x.push_back(register_module(name, torch::nn::Linear(kWidth, kWidth)));
    }
  }
  torch::nn::Embedding tokens;
  std::vector<torch::nn::Linear> x;
};
TORCH_MODULE(Net);

Net make_net(int64_t rows, const std::vector<std::string>& layers) { return Net(rows, layers); }

const UnitPolicy kOneUnit = one_unit();

torch::Tensor whole(ShardedModel& sharded, const std::string& name) {
  for (const auto& [one, tensor] : sharded.full_state()) {
    if (one == name) return tensor;
  }
  return {};
}

// Each state of a parameter put together, in fp32 or as codes.
std::map<std::string, torch::Tensor> states(World& world, ShardedModel& sharded, Optimizer& optimizer, size_t i) {
  std::map<std::string, torch::Tensor> all;
  for (const auto& [name, tensors] : optimizer.state().elements) {
    const int64_t each = name.ends_with("_scale") ? 64 : 1;
    const int64_t most = (c10::multiply_integers(sharded.parameters()[i].shape) + each - 1) / each;
    torch::Tensor padded = torch::zeros({most + 1}, tensors[i].scalar_type());
    padded.slice(0, 0, tensors[i].numel()).copy_(tensors[i]);
    const torch::Tensor place = torch::tensor({sharded.parameters()[i].offset / each, tensors[i].numel()});
    torch::Tensor full = torch::zeros({most}, tensors[i].scalar_type());
    const auto pieces = world.all_gather(padded), places = world.all_gather(place);
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      const auto begin = places[rank][0].item<int64_t>(), numel = places[rank][1].item<int64_t>();
      full.slice(0, begin, begin + numel).copy_(pieces[rank].slice(0, 0, numel));
    }
    all[name] = full;
  }
  return all;
}

void fill_states(Optimizer& optimizer, int64_t value) {
  const Optimizer::State state = optimizer.state();
  for (const auto* kind : {&state.elements, &state.scalars}) {
    for (const auto& one : *kind) {
      for (const torch::Tensor& tensor : one.tensors) torch::Tensor(tensor).fill_(value);
    }
  }
}

TEST(LoadStrictly, NamesAllDifferencesAtOnce) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    Net saved = make_net(kRows, {"first", "second"}), other = make_net(kMoreRows, {"second", "third"});
    auto sharded = shard(*saved, world, {.units = kOneUnit}), differs = shard(*other, world, {.units = kOneUnit});
    AdamW optimizer(differs);
    save_checkpoint(scratch.path() / "saved", {.model = &sharded});
    const auto before = differs.shards()[0].clone();
    EXPECT_THAT(message_of<Error>(
                    [&] { load_checkpoint(scratch.path() / "saved", {.model = &differs, .optimizer = &optimizer}); }),
                AllOf(HasSubstr("another model"), HasSubstr("tokens.weight has shape [30, 12], expected [50, 12]"),
                      HasSubstr("\n  third.weight is missing\n"), HasSubstr("third.bias is missing"),
                      HasSubstr("first.weight is unknown"), HasSubstr("first.bias is unknown"),
                      HasSubstr("optimizer.exp_avg.second.weight is missing"), HasSubstr("\nBuild the model"),
                      HasSubstr("with strict off")));
    EXPECT_TRUE(torch::equal(before, differs.shards()[0]));
    EXPECT_THAT(
        message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", {.model = &differs}, {.strict = false}); }),
        HasSubstr("Set .differences"));
  });
}

TEST(LoadWhatFits, KeepsTheRestAndSaysSo) {
  const ScratchDirectory scratch;
  for (const StateDtype dtype : {StateDtype::Float32, StateDtype::Block8}) {
    run_ranks(3, [&](World& world) {
      Net saved = make_net(kRows, {"first", "second"});
      auto sharded = shard(*saved, world, {.units = kOneUnit});
      AdamW optimizer(sharded, {.state_dtype = dtype});
      fill_states(optimizer, 5);
      save_checkpoint(scratch.path() / "saved", {.model = &sharded, .optimizer = &optimizer, .step = 9});
      save_pretrained(scratch.path() / "whole", sharded);
    });
    run_ranks(2, [&](World& world) {
      Net saved = make_net(kRows, {"first", "second"}), other = make_net(kMoreRows, {"second", "third"});
      auto expected = shard(*saved, world), sharded = shard(*other, world, {.units = kOneUnit});
      load_pretrained(scratch.path() / "whole", expected);
      AdamW optimizer(sharded, {.state_dtype = dtype});
      fill_states(optimizer, 7);
      const torch::Tensor third = whole(sharded, "third.weight"), tokens = whole(sharded, "tokens.weight");
      LoadDifferences found;
      EXPECT_EQ(load_checkpoint(scratch.path() / "saved", {.model = &sharded, .optimizer = &optimizer},
                                {.strict = false, .differences = &found}),
                9);
      EXPECT_THAT(found.missing, UnorderedElementsAre("third.weight", "third.bias"));
      EXPECT_THAT(found.extra, UnorderedElementsAre("first.weight", "first.bias"));
      EXPECT_THAT(found.grown, ElementsAre("tokens.weight"));
      EXPECT_TRUE(torch::equal(whole(sharded, "second.weight"), whole(expected, "second.weight")));
      EXPECT_TRUE(torch::equal(whole(sharded, "third.weight"), third));
      const torch::Tensor grown = whole(sharded, "tokens.weight");
      EXPECT_TRUE(torch::equal(grown.slice(0, 0, kRows), whole(expected, "tokens.weight")));
      EXPECT_TRUE(torch::equal(grown.slice(0, kRows), tokens.slice(0, kRows)));
      for (size_t i = 0; i < sharded.parameters().size(); ++i) {
        const std::string& name = sharded.parameters()[i].name;
        const bool is_new = name.starts_with("third");
        EXPECT_EQ(optimizer.state().scalars[0].tensors[i].item<float>(), is_new ? 0 : 5) << name;
        for (const auto& [state, values] : states(world, sharded, optimizer, i)) {
          const int64_t each = state.ends_with("_scale") ? 64 : 1;
          const int64_t rows = is_new ? 0 : name == "tokens.weight" ? kRows * kWidth : values.numel() * each;
          const int64_t there = (rows + each - 1) / each;
          EXPECT_TRUE(torch::all(values.slice(0, 0, there) == 5).item<bool>()) << state << " of " << name;
          EXPECT_TRUE(torch::all(values.slice(0, there) == 0).item<bool>()) << state << " of " << name;
        }
      }
    });
  }
}

TEST(LoadWhatFits, GivesDeferredParametersTheirFirstValuesWhereItHasNone) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    Net saved = make_net(kRows, {"second"});
    auto sharded = shard(*saved, world);
    save_checkpoint(scratch.path() / "saved", {.model = &sharded});
    torch::manual_seed(3);
    Net plain = make_net(kMoreRows, {"second", "third"});
    torch::manual_seed(3);
    Net other = deferred_init([] { return make_net(kMoreRows, {"second", "third"}); });
    auto filled = shard(*other, world, {.units = kOneUnit, .initialise = false});
    LoadDifferences found;
    load_checkpoint(scratch.path() / "saved", {.model = &filled}, {.strict = false, .differences = &found});
    const torch::Tensor tokens = whole(filled, "tokens.weight");
    EXPECT_TRUE(torch::equal(tokens.slice(0, 0, kRows), whole(sharded, "tokens.weight")));
    EXPECT_TRUE(torch::equal(tokens.slice(0, kRows), plain->tokens->weight.slice(0, kRows)));
    EXPECT_TRUE(torch::equal(whole(filled, "third.weight"), plain->x[1]->weight));
    EXPECT_TRUE(torch::equal(whole(filled, "second.weight"), whole(sharded, "second.weight")));
  });
}

// Each rank its own, such as the statistics of its batches; those that are there become the same on all.
TEST(LoadWhatFits, BuffersThatAreNotThereStayThoseOfEachRank) {
  const ScratchDirectory scratch;
  const auto folder = scratch.path() / "saved", files = scratch.path() / "files";
  run_ranks(2, [&](World& world) {
    Net saved = make_net(kRows, {"first"});
    saved->register_buffer("count", torch::full({2}, 7.f));
    auto sharded = shard(*saved, world);
    save_checkpoint(folder, {.model = &sharded});
    save_pretrained(files, sharded);
    Net net = make_net(kRows, {"first"});
    const torch::Tensor count = net->register_buffer("count", torch::zeros({2}));
    const torch::Tensor mean = net->register_buffer("mean", torch::zeros({2}));
    auto other = shard(*net, world);
    const torch::Tensor own = torch::full({2}, 1.f + static_cast<float>(world.rank()));
    const auto expect_own_mean = [&](const std::function<void(LoadDifferences&)>& load) {
      for (const torch::Tensor& buffer : {count, mean}) buffer.copy_(own);
      LoadDifferences found;
      load(found);
      EXPECT_THAT(found.missing, ElementsAre("buffer.mean"));
      EXPECT_TRUE(torch::equal(count, torch::full({2}, 7.f)));
      EXPECT_TRUE(torch::equal(mean, own));
    };
    expect_own_mean([&](LoadDifferences& found) {
      load_checkpoint(folder, {.model = &other}, {.strict = false, .differences = &found});
    });
    expect_own_mean(
        [&](LoadDifferences& found) { load_pretrained(files, other, {.strict = false, .differences = &found}); });
  });
}

TEST(LoadWhatFits, BeginsTheStateAnewThatAnotherOptimizerKept) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    Net net = make_net(kRows, {"first"});
    auto sharded = shard(*net, world);
    SGD sgd(sharded, {.momentum = 0.9});
    fill_states(sgd, 5);
    save_checkpoint(scratch.path() / "saved", {.model = &sharded, .optimizer = &sgd});
    AdamW adamw(sharded);
    fill_states(adamw, 7);
    const Checkpoint checkpoint{.model = &sharded, .optimizer = &adamw};
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", checkpoint); }),
                AllOf(HasSubstr("another optimizer"), HasSubstr("optimizer.exp_avg.first.bias is missing"),
                      HasSubstr("optimizer.momentum_buffer.first.bias is unknown")));
    LoadDifferences found;
    load_checkpoint(scratch.path() / "saved", checkpoint, {.strict = false, .differences = &found});
    EXPECT_THAT(found.missing, Contains("optimizer.step.first.bias"));
    EXPECT_THAT(found.extra, Contains("optimizer.step.first.bias"));
    EXPECT_THAT(found.missing, Each(HasSubstr("optimizer.")));
    const Optimizer::State state = adamw.state();
    for (const auto* kind : {&state.elements, &state.scalars}) {
      for (const auto& one : *kind) {
        for (const torch::Tensor& tensor : one.tensors) EXPECT_TRUE(torch::all(tensor == 0).item<bool>()) << one.name;
      }
    }
  });
}

// Adapters beside frozen matrices: the body's checkpoint has neither them nor a state that is wanted.
TEST(LoadWhatFits, StateOfFrozenParametersIsNoDifference) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    Net body = make_net(kRows, {"first"}), adapted = make_net(kRows, {"first", "adapter"});
    auto sharded = shard(*body, world);
    AdamW optimizer(sharded);
    save_checkpoint(scratch.path() / "body", {.model = &sharded, .optimizer = &optimizer});
    for (auto& parameter : adapted->named_parameters()) {
      parameter.value().requires_grad_(parameter.key().starts_with("adapter"));
    }
    auto tuned = shard(*adapted, world);
    AdamW of_adapter(tuned);
    LoadDifferences found;
    load_checkpoint(scratch.path() / "body", {.model = &tuned, .optimizer = &of_adapter},
                    {.strict = false, .differences = &found});
    EXPECT_THAT(found.missing, UnorderedElementsAre("adapter.weight", "adapter.bias"));
    EXPECT_THAT(found.extra, IsEmpty());
    save_checkpoint(scratch.path() / "tuned", {.model = &tuned, .optimizer = &of_adapter});
    EXPECT_EQ(
        message_of([&] { load_checkpoint(scratch.path() / "tuned", {.model = &tuned, .optimizer = &of_adapter}); }),
        "no error");
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "tuned", {.model = &sharded}); }),
                AllOf(HasSubstr("adapter.weight is unknown"), Not(HasSubstr("optimizer."))));
  });
}

}  // namespace
}  // namespace fsdp
