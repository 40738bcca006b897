// The text that tells a schedule, of traces of a GPT whose head is tied to its embedding.
#include "engine/report_tables.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "engine/unit_names.h"
#include "schedule/support.h"

namespace fsdp::engine {
namespace {

using schedule::FullUntil;
using schedule::Player;
using schedule::UnitId;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

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

int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(ReportTables, TellAStepUseByUse) {
  const auto units = gpt(6);
  const auto step = train(6, 2);
  EXPECT_EQ(units_table(units, step, {}) + step_totals(units, step, {}) + step_table(units, step, {}),
            R"(unit      parameters  a gather  a step  a reduction  a step
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
  report::Recorder recorder(7);
  const auto units = gpt(6);
  const auto step = train(6, 2);
  const ReportOptions options{.waits = &recorder, .steps = 2};
  for (const std::string& text :
       {units_table(units, step, options), step_totals(units, step, options), step_table(units, step, options)}) {
    EXPECT_LE(longest_line(text), 100) << text;
  }
}

TEST(ReportTables, SumUpManyBlocksAlike) {
  const auto units = gpt(48);
  const auto step = train(48, 2);
  EXPECT_EQ(units_table(units, step, {}), R"(unit                   parameters  a gather  a step  a reduction  a step
root                    2,097,664   4.20 MB     3 x      4.20 MB     1 x
blocks.0                3,152,384   6.30 MB     2 x      6.30 MB     1 x
46 more, to blocks.46
blocks.47               3,152,384   6.30 MB     1 x      6.30 MB     1 x
)");
  const std::string steps = step_table(units, step, {});
  EXPECT_LE(lines_of(steps), 15);
  EXPECT_THAT(steps, AllOf(HasSubstr("46 more, to blocks.46\n"), HasSubstr("44 more, to blocks.0\n")));
}

TEST(ReportTables, TellEqualMicroBatchesOnce) {
  EXPECT_EQ(step_table(gpt(6), train(6, 2, FullUntil::ShardsChange, 4), {.buffers = false, .gradient_buffers = false}),
            R"(
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
  EXPECT_THAT(step_table(gpt(2), train(2, 1), {}), AllOf(HasSubstr("root@0 *"), EndsWith(note)));
  EXPECT_THAT(step_table(gpt(2), train(2, 2), {}), Not(HasSubstr("*")));
}

TEST(ReportTables, LeaveOutWhatAModelOnOneRankHasNot) {
  const auto units = gpt(2);
  const auto step = train(2, 2, FullUntil::ShardsChange);
  const ReportOptions options{.gathers = false, .buffers = false, .gradient_buffers = false};
  const std::string text =
      units_table(units, step, options) + step_totals(units, step, options) + step_table(units, step, options);
  EXPECT_THAT(text, Not(HasSubstr("gather")));
  EXPECT_THAT(text, AllOf(HasSubstr("in 3 reductions"), Not(HasSubstr(" ms"))));
  // Only the first of them gathers, which is not told.
  EXPECT_THAT(step_table(units, train(2, 2, FullUntil::ShardsChange, 3), options), HasSubstr("1 to 3 of 3, each"));
}

TEST(ReportTables, TellWaitsAsTheMeanOfTheSteps) {
  report::Recorder recorder(3);
  const auto units = gpt(2);
  const auto step = train(2, 2);
  recorder.waits(report::Activity::WaitGather, 1, [] {
    const int64_t begin = report::now();
    while (report::now() - begin < 2'000'000) {
    }
  });
  const double milliseconds = static_cast<double>(recorder.waited(report::Activity::WaitGather, 1).nanoseconds) / 1e6;
  EXPECT_THAT(step_totals(units, step, {.waits = &recorder, .steps = 100}),
              HasSubstr(fmt::format("the mean of 100: {:.2f} ms for gathers, 0.00 ms for", milliseconds / 100)));
}

TEST(ReportTables, LeaveOutWhatNamesBeginWith) {
  auto units = gpt(2);
  units[1].name = "encoder.layers.0";
  units[2].name = "encoder.layers.1";
  const auto step = train(2, 2);
  EXPECT_THAT(units_table(units, step, {}), HasSubstr("\nencoder.layers.0 "));
  EXPECT_THAT(step_table(units, step, {}), AllOf(HasSubstr(" layers.0 "), Not(HasSubstr("encoder"))));
  units[2].name = "decoder.layers.1";
  EXPECT_THAT(step_table(units, step, {}), AllOf(HasSubstr(" encoder.layers.0 "), HasSubstr(" decoder.layers.1 ")));
}

TEST(ReportTables, ListUnitsInARowByTheFirstAndTheLast) {
  const auto units = gpt(9);
  EXPECT_EQ(list_units(units, {}), "");
  EXPECT_EQ(list_units(units, {1, 2}), "blocks.0, blocks.1");
  EXPECT_EQ(list_units(units, {0, 3, 4, 5, 0}), "root, blocks.2 to blocks.4, root");
  EXPECT_EQ(list_units(units, {4, 3, 2, 9}), "blocks.3 to blocks.1, blocks.8");
  EXPECT_EQ(list_units(units, {1, 3, 5, 7, 9}), "blocks.0, blocks.2, blocks.4 and 2 more");
}

}  // namespace
}  // namespace fsdp::engine
