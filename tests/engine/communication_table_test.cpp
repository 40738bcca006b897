// Counts what every strategy communicates for every kind of model, and keeps the table of docs/communication.md.
//
// FSDP_UPDATE_DOCS=1 in the environment writes the table instead of comparing it.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/names.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using testing_models::make_gpt;
using testing_models::TestModel;

constexpr const char* kFile = FSDP_DOCS "/communication.md";
constexpr const char* kBegin = "<!-- counted by engine.CommunicationTable -->\n";
constexpr const char* kEnd = "<!-- end -->";

struct Row {
  std::string name;
  std::function<TestModel()> make;
  int micro_batches = 1;
};

TestModel with_frozen(TestModel model, const std::vector<std::string>& patterns) {
  for (auto& parameter : model.module->named_parameters()) {
    for (const std::string& pattern : patterns) {
      if (matches(pattern, parameter.key())) parameter.value().requires_grad_(false);
    }
  }
  return model;
}

// The whole of the model, twice, before one backward.
TestModel called_twice(TestModel model) {
  return {model.module, [loss = model.loss](int64_t b) { return loss(b) + loss(b + 1); }};
}

std::vector<Row> rows() {
  const auto kinds = testing_models::model_kinds();
  return {{"GPT, 5 blocks, head tied to the embedding", [] { return make_gpt(5); }},
          {"the same, 2 micro-batches a rank", [] { return make_gpt(5); }, 2},
          {"the same, blocks 0 to 2 frozen",
           [] {
             return with_frozen(make_gpt(5), {"blocks.0.*", "blocks.1.*", "blocks.2.*"});
           }},
          {"the same, all but one bias frozen",
           [] {
             auto model = with_frozen(make_gpt(5), {"*"});
             model.module->named_parameters()["blocks.3.qkv.bias"].requires_grad_(true);
             return model;
           }},
          {"the same, called twice before backward", [] { return called_twice(make_gpt(5)); }},
          {"TransformerEncoder, 3 layers", kinds[1].make},
          {"convolutions with BatchNorm, 3 stages and a head", kinds[2].make},
          {"LSTM, one unit", kinds[3].make}};
}

struct Column {
  std::string name;
  Options options;
};

std::vector<Column> columns() {
  return {{"FullShard", {}},
          {"ShardGradOp", {.strategy = Strategy::ShardGradOp}},
          {"ShardOptimizer", {.strategy = Strategy::ShardOptimizer}},
          {"NoShard", {.strategy = Strategy::NoShard}},
          {"HybridShard", {.strategy = Strategy::HybridShard, .shard_group_size = 2}},
          {"HybridShardGradOp", {.strategy = Strategy::HybridShardGradOp, .shard_group_size = 2}}};
}

// What one step communicates once it is planned.
std::string count(const Row& row, const Options& options, World& world) {
  auto model = row.make();
  auto sharded = shard(*model.module, world, options);
  AdamW optimizer(sharded);
  CommunicationReport before, after;
  for (int step = 0; step < 3; ++step) {
    before = sharded.communication();
    for (int micro_batch = 0; micro_batch < row.micro_batches; ++micro_batch) model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
    after = sharded.communication();
  }
  EXPECT_EQ(after.late_gradients, 0) << row.name;
  EXPECT_EQ(after.foreseen_gathers - before.foreseen_gathers, after.gathers - before.gathers) << row.name;
  const int64_t reductions = after.reductions - before.reductions;
  const bool all = after.all_reductions > before.all_reductions;
  return std::to_string(after.gathers - before.gathers) + " + " + std::to_string(reductions) + (all ? "\\*" : "");
}

std::string table(World& world) {
  std::string text = "| model |", rule = "|---|";
  for (const Column& column : columns()) text += " " + column.name + " |", rule += "---|";
  text += "\n" + rule + "\n";
  for (const Row& row : rows()) {
    text += "| " + row.name + " |";
    for (const Column& column : columns()) text += " " + count(row, column.options, world) + " |";
    text += "\n";
  }
  return text;
}

std::string read(const char* file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CommunicationTable, IsWhatIsCounted) {
  fsdp::testing::run_ranks(4, [](World& world) {
    const std::string counted = table(world);
    if (world.rank() != 0) return;
    std::string page = read(kFile);
    const size_t begin = page.find(kBegin), end = page.find(kEnd);
    ASSERT_NE(begin, std::string::npos);
    ASSERT_NE(end, std::string::npos);
    const size_t start = begin + std::string(kBegin).size();
    if (std::getenv("FSDP_UPDATE_DOCS")) {
      std::ofstream(kFile) << page.replace(start, end - start, counted);
    } else {
      EXPECT_EQ(page.substr(start, end - start), counted);
    }
  });
}

}  // namespace
}  // namespace fsdp
