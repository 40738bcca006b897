// Rounds among ranks, given their reports.
#include "schedule/round.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/message_of.h"

namespace fsdp::schedule {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kUnits = {"root", "layers.0", "layers.1"};
const std::vector<uint8_t> kAllShare = {1, 1, 1};

RankReport gathers(UnitId unit) {
  return {.activity = RankActivity::Gathers, .unit = unit, .operation = "aten::mm", .counts = UnitCounts(3)};
}

RankReport ends() { return {.activity = RankActivity::EndsBackward, .counts = UnitCounts(3)}; }
RankReport follows() { return {.activity = RankActivity::Follows, .counts = UnitCounts(3)}; }

TEST(Rounds, AReportIsTheSameAfterPackingAndUnpacking) {
  RankReport report = gathers(2);
  report.counts[1] = {.reductions = 2, .lag = 1, .gradients = 3, .changed = 1};
  report.changes = 7, report.gathers = 5, report.plans = -9, report.reductions_as_before = true;
  report.written = 11, report.changed = true;
  std::vector<int64_t> words(words_of_report(3), 77);
  pack(report, words);
  EXPECT_EQ(unpack_report(words), report);
  report.operation = std::string(100, 'x');
  pack(report, words);
  EXPECT_EQ(unpack_report(words).operation, std::string(48, 'x'));
}

TEST(Rounds, GatherTheUnitsThatRanksWithTheSameShardsNeed) {
  const RankReports reports = {gathers(2), gathers(1), ends()};
  const Round round = merge(reports, kAllShare);
  EXPECT_THAT(round.gathered, ElementsAre(1, 2));
  EXPECT_FALSE(round.ended);
  EXPECT_FALSE(round.alike);
  EXPECT_THAT(merge(reports, std::vector<uint8_t>{1, 0, 1}).gathered, ElementsAre(2));
}

TEST(Rounds, EndABackwardOnceAllRanksWithABatchHave) {
  RankReport other = ends();
  other.counts[0].reductions = 1;
  const Round round = merge({ends(), other, follows()}, kAllShare);
  EXPECT_TRUE(round.any_batch && round.ended && round.alike);
  EXPECT_EQ(round.counts[0].reductions, 1);
  EXPECT_FALSE(merge({follows(), follows()}, kAllShare).any_batch);
}

TEST(Rounds, AreAlikeWhileRanksGatherTheSameByTheSamePlans) {
  RankReport other = gathers(1);
  EXPECT_TRUE(merge({gathers(1), other}, kAllShare).alike);
  other.plans = 1;
  EXPECT_FALSE(merge({gathers(1), other}, kAllShare).alike);
  other = gathers(1), other.gathers = 1;
  EXPECT_FALSE(merge({gathers(1), other}, kAllShare).alike);
}

TEST(Rounds, CompareWrittenValues) {
  RankReport writes = gathers(1), other = writes;
  writes.activity = other.activity = RankActivity::Writes;
  writes.written = other.written = 5, other.changed = true;
  const Round round = merge({writes, other}, kAllShare);
  EXPECT_TRUE(round.wrote_alike && round.changed);
  other.written = 6;
  EXPECT_FALSE(merge({writes, other}, kAllShare).wrote_alike);
}

TEST(Rounds, NameRanksThatCannotGoOn) {
  const auto message = [](const RankReports& reports, bool takes_part) {
    return testing::message_of([&] { check_can_go_on(reports, takes_part, kUnits); });
  };
  EXPECT_EQ(message({gathers(1), ends()}, /*takes_part=*/true), "no error");
  EXPECT_THAT(message({gathers(1), ends()}, /*takes_part=*/false),
              AllOf(HasSubstr("rank 1 has ended its backward where rank 0 gathers unit layers.0 outside of a plan, for "
                              "aten::mm"),
                    HasSubstr("let every rank do it")));
  EXPECT_EQ(message({follows(), gathers(1), gathers(1)}, /*takes_part=*/false), "no error");
  RankReport ahead = gathers(1);
  ahead.changes = 1;
  EXPECT_THAT(message({gathers(1), ahead}, /*takes_part=*/true), HasSubstr("before a step that the first has taken"));
  RankReport writes = gathers(1);
  writes.activity = RankActivity::Writes;
  EXPECT_THAT(message({gathers(1), writes}, /*takes_part=*/true),
              HasSubstr("rank 1 writes unit layers.0, for aten::mm"));
}

TEST(Rounds, ARankTakesPartInTheGathersThatItLacks) {
  EXPECT_THAT(missed_gathers({{0, 1, 2}, {0}, {0, 1}}, /*own=*/1, kAllShare, kUnits), ElementsAre(1, 2));
  EXPECT_THAT(missed_gathers({{0, 1, 2}, {0}, {0, 1}}, /*own=*/0, kAllShare, kUnits), IsEmpty());
  EXPECT_THAT(missed_gathers({{0, 1, 2}, {0}, {0, 1}}, 1, std::vector<uint8_t>{0, 1, 1}, kUnits), ElementsAre(1));
  EXPECT_THAT(testing::message_of([] {
                missed_gathers({{0, 1}, {0, 2}}, 0, kAllShare, kUnits);
              }),
              HasSubstr("rank 1 gathers unit layers.1 where another gathers unit layers.0"));
}

}  // namespace
}  // namespace fsdp::schedule
