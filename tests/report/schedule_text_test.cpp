// The text that tells a schedule, of traces of a GPT whose head is tied to its embedding.
#include "report/schedule_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "schedule/support.h"

namespace fsdp::report {
namespace {

using schedule::FullUntil;
using schedule::Player;
using schedule::UnitId;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<UnitFacts> gpt(int blocks) {
  std::vector<UnitFacts> units{{"root", 2'097'664, 8'390'656, 4'195'328, 4'195'328}};
  for (int i = 0; i < blocks; ++i) {
    units.push_back({fmt::format("blocks.{}", i), 3'152'384, 12'609'536, 6'304'768, 6'304'768});
  }
  return units;
}

void micro_batch(Player& player, int blocks) {
  player.forward({0});
  for (UnitId unit = 1; unit <= blocks; ++unit) player.forward({unit});
  player.forward({0});
  player.backward(0);
  player.gradients(0, 1, 2);
  for (UnitId unit = blocks; unit >= 1; --unit) {
    player.backward(unit);
    player.gradients(unit, 2, 2);
  }
  player.backward(0);
  player.gradients(0, 1, 2);
  player.end_backward();
}

schedule::Step train(int blocks, int steps, FullUntil full_until = FullUntil::BufferNeeded, int micro_batches = 1) {
  const int gradient_buffers = full_until == FullUntil::ShardsChange ? blocks + 1 : 4;
  Player player({.units = blocks + 1, .gradient_buffers = gradient_buffers, .full_until = full_until});
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < micro_batches; ++i) micro_batch(player, blocks);
    player.add(player.schedule.shards_change());
  }
  return player.schedule.record().step();
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

// FullShard on two ranks.
ScheduleFacts facts_of(const std::vector<UnitFacts>& units, const schedule::Step& step) {
  return {.strategy = "FullShard",
          .ranks = 2,
          .shards = 2,
          .buffers = 2,
          .gradient_buffers = 4,
          .units = units,
          .step = step};
}

// The table of the step alone.
std::string step_of(const std::string& text) { return text.substr(text.find("\n\n", text.find("full at once")) + 1); }

int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(ReportTables, TellAStepUseByUse) {
  EXPECT_EQ(schedule_text(facts_of(gpt(6), train(6, 2))),
            R"(FullShard on 2 ranks: 7 units, 2 buffers for full units, 4 buffers for gradients

unit      parameters  a gather  a step  a reduction  a step
root       2,097,664   4.20 MB     3 x      4.20 MB     1 x
blocks.0   3,152,384   6.30 MB     2 x      6.30 MB     1 x
blocks.1   3,152,384   6.30 MB     2 x      6.30 MB     1 x
blocks.2   3,152,384   6.30 MB     2 x      6.30 MB     1 x
blocks.3   3,152,384   6.30 MB     2 x      6.30 MB     1 x
blocks.4   3,152,384   6.30 MB     2 x      6.30 MB     1 x
blocks.5   3,152,384   6.30 MB     1 x      6.30 MB     1 x

21,011,968 parameters; this rank gets, in a step: 81.9 MB in 14 gathers, 42.0 MB in 7 reductions
full at once: at most 2 units, 25.2 MB

phase     unit      gathers             releases        reduces     has reduced
forward   root      root@0, blocks.0@1
forward   blocks.0  blocks.1@0          root
forward   blocks.1  blocks.2@1          blocks.0
forward   blocks.2  blocks.3@0          blocks.1
forward   blocks.3  blocks.4@1          blocks.2
forward   blocks.4  blocks.5@0          blocks.3
forward   blocks.5  root@1              blocks.4
forward   root
backward  root
backward  blocks.5  blocks.4@1          root            blocks.5@1
backward  blocks.4  blocks.3@0          blocks.5        blocks.4@2
backward  blocks.3  blocks.2@1          blocks.4        blocks.3@3
backward  blocks.2  blocks.1@0          blocks.3        blocks.2@1  blocks.5
backward  blocks.1  blocks.0@1          blocks.2        blocks.1@2  blocks.4
backward  blocks.0  root@0              blocks.1        blocks.0@3  blocks.3
backward  root                                          root@0
end                                     root, blocks.0              root to blocks.2
)");
}

TEST(ReportTables, FitInto100ColumnsWithTimes) {
  ScheduleFacts facts = facts_of(gpt(6), train(6, 2));
  facts.steps = 2;
  const std::string text = schedule_text(facts);
  EXPECT_THAT(text, HasSubstr("reduce waits"));
  EXPECT_LE(longest_line(text), 100) << text;
}

TEST(ReportTables, SumUpManyBlocksAlike) {
  const std::string text = schedule_text(facts_of(gpt(48), train(48, 2)));
  EXPECT_THAT(text, HasSubstr(R"(
unit                   parameters  a gather  a step  a reduction  a step
root                    2,097,664   4.20 MB     3 x      4.20 MB     1 x
blocks.0                3,152,384   6.30 MB     2 x      6.30 MB     1 x
46 more, to blocks.46
blocks.47               3,152,384   6.30 MB     1 x      6.30 MB     1 x

)"));
  EXPECT_LE(lines_of(step_of(text)), 15);
  EXPECT_THAT(step_of(text), AllOf(HasSubstr("46 more, to blocks.46\n"), HasSubstr("44 more, to blocks.0\n")));
}

TEST(ReportTables, TellEqualMicroBatchesOnce) {
  ScheduleFacts facts = facts_of(gpt(6), train(6, 2, FullUntil::ShardsChange, 4));
  facts.tells_buffers = facts.tells_gradient_buffers = false;
  EXPECT_EQ(step_of(schedule_text(facts)), R"(
micro-batch 1 of 4
phase     unit                        gathers           reduces   has reduced
forward   root                        root to blocks.5
forward   blocks.0 to blocks.5, root
backward  root
backward  blocks.5                                      blocks.5
backward  blocks.4                                      blocks.4
backward  blocks.3                                      blocks.3
backward  blocks.2                                      blocks.2
backward  blocks.1                                      blocks.1
backward  blocks.0                                      blocks.0
backward  root                                          root
end                                                               root to blocks.5

micro-batches 2 to 4 of 4, each
phase     unit                    releases          reduces   has reduced
forward   root to blocks.5, root
backward  root
backward  blocks.5                                  blocks.5
backward  blocks.4                                  blocks.4
backward  blocks.3                                  blocks.3
backward  blocks.2                                  blocks.2
backward  blocks.1                                  blocks.1
backward  blocks.0                                  blocks.0
backward  root                                      root
end                                                           root to blocks.5
step                              root to blocks.5
)");
}

TEST(ReportTables, MarkWhatIsGatheredOnDemand) {
  const std::string note = "* on demand: there was no plan that it followed\n";
  EXPECT_THAT(schedule_text(facts_of(gpt(2), train(2, 1))), AllOf(HasSubstr("root@0 *"), EndsWith(note)));
  EXPECT_THAT(schedule_text(facts_of(gpt(2), train(2, 2))), Not(HasSubstr("*")));
}

TEST(ReportTables, LeaveOutWhatAModelOnOneRankHasNot) {
  const auto alone = [](int micro_batches) {
    ScheduleFacts facts = facts_of(gpt(2), train(2, 2, FullUntil::ShardsChange, micro_batches));
    facts.ranks = facts.shards = 1;
    facts.buffers = 0;
    facts.tells_buffers = facts.tells_gradient_buffers = false;
    return schedule_text(facts);
  };
  EXPECT_THAT(alone(1), AllOf(StartsWith("FullShard on 1 rank: 3 units\n\n"), Not(HasSubstr("gather"))));
  EXPECT_THAT(alone(1), AllOf(HasSubstr("in 3 reductions"), Not(HasSubstr(" ms"))));
  // Only the first of them gathers, which is not told.
  EXPECT_THAT(alone(3), HasSubstr("1 to 3 of 3, each"));
}

TEST(ReportTables, TellWaitsAsTheMeanOfTheSteps) {
  ScheduleFacts facts = facts_of(gpt(48), train(48, 2));
  facts.steps = 100;
  facts.units[1].gather_wait = 2'000'000;
  for (UnitFacts& unit : facts.units) unit.reduction_wait = 1'000'000;
  facts.replica_wait = 1'000'000;
  const std::string text = schedule_text(facts);
  EXPECT_THAT(text,
              HasSubstr("the mean of 100: 0.02 ms for gathers, 0.50 ms for reductions,\n  0.00 ms for agreement"));
  EXPECT_THAT(text, ContainsRegex("\nblocks.0 .* 0.02 ms +0.01 ms\n"));
}

TEST(ReportTables, LeaveOutWhatNamesBeginWith) {
  ScheduleFacts facts = facts_of(gpt(2), train(2, 2));
  facts.units[1].name = "encoder.layers.0";
  facts.units[2].name = "encoder.layers.1";
  EXPECT_THAT(schedule_text(facts), HasSubstr("\nencoder.layers.0 "));
  EXPECT_THAT(step_of(schedule_text(facts)), AllOf(HasSubstr(" layers.0 "), Not(HasSubstr("encoder"))));
  facts.units[2].name = "decoder.layers.1";
  EXPECT_THAT(step_of(schedule_text(facts)), AllOf(HasSubstr(" encoder.layers.0 "), HasSubstr(" decoder.layers.1 ")));
}

TEST(ReportTables, ListUnitsInARowByTheFirstAndTheLast) {
  const auto listed = [](const std::vector<UnitId>& units) {
    ScheduleFacts facts = facts_of(gpt(9), {});
    facts.evaluation = units;
    const std::string text = schedule_text(facts), line = "\nwithout gradients: ";
    const size_t found = text.find(line);
    return found == std::string::npos ? "" : text.substr(found + line.size());
  };
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({1, 2}), "blocks.0, blocks.1\n");
  EXPECT_EQ(listed({0, 3, 4, 5, 0}), "root, blocks.2 to blocks.4, root\n");
  EXPECT_EQ(listed({4, 3, 2, 9}), "blocks.3 to blocks.1, blocks.8\n");
  EXPECT_EQ(listed({1, 3, 5, 7, 9}), "blocks.0, blocks.2, blocks.4 and 2 more\n");
}

}  // namespace
}  // namespace fsdp::report
