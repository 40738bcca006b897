// The orders of the five schedules.
#include "stages/schedules.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "stages/rewrites.h"
#include "stages/support.h"
#include "stages/validate.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EachSchedule : public ::testing::TestWithParam<NamedSchedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, EachSchedule, ::testing::ValuesIn(named_schedules()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EachSchedule, IsValidForAllCountsAlsoIfSendsWaitForTheirReceives) {
  for_all_counts(GetParam(), {8, 4, 12}, [&](Counts counts, const StageSchedule& schedule) {
    SCOPED_TRACE(counts.text());
    EXPECT_EQ(schedule.micro_batches, counts.micro_batches);
    EXPECT_EQ(schedule.stages(), counts.ranks * counts.stages_per_rank);
    ASSERT_NO_THROW(validate(schedule));
    const StageSchedule with_messages = add_messages(schedule);
    EXPECT_EQ(has_messages(with_messages), counts.ranks > 1);
    ASSERT_NO_THROW(validate(with_messages));
  });
}

TEST_P(EachSchedule, IsValidByTheGraph) {
  for_all_counts(GetParam(), {4, 2, 5}, [&](Counts counts, const StageSchedule& schedule) {
    EXPECT_TRUE(is_valid(schedule)) << counts.text();
    EXPECT_TRUE(is_valid(add_messages(schedule))) << counts.text();
  });
}

TEST_P(EachSchedule, RefusesCountsThatCannotBe) {
  for (const Counts& counts : {Counts{0, 1, 1}, Counts{1, 0, 1}, Counts{1, 1, 0}, Counts{2, 1, -1}}) {
    const std::string message = testing::message_of<Error>(
        [&] { GetParam().generate(counts.ranks, counts.stages_per_rank, counts.micro_batches); });
    EXPECT_NE(message, "no error") << counts.text();
  }
  EXPECT_THAT(testing::message_of<Error>([&] { GetParam().generate(1 << 20, 1, 1 << 30); }),
              HasSubstr("expected at most 1048576 stages"));
}

TEST(Schedules, HaveTheOrdersOfTheirPapers) {
  EXPECT_EQ(to_csv(one_at_a_time(2, 1, 2)), "0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(to_csv(one_at_a_time(2, 2, 1)), "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n");
  EXPECT_EQ(to_csv(all_forward_all_backward(2, 1, 3)), "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
  EXPECT_EQ(to_csv(one_forward_one_backward(3, 1, 4)),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
  EXPECT_EQ(to_csv(one_forward_one_backward(3, 1, 1)), "0F0,0B0\n1F0,1B0\n2F0,2B0\n");
  EXPECT_EQ(to_csv(interleaved(2, 2, 4)),
            "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n");
  EXPECT_EQ(to_csv(zero_bubble(2, 1, 3)), "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
}

TEST(Schedules, OfOneStagePerRankInterleavedAreOneForwardOneBackward) {
  EXPECT_EQ(interleaved(4, 1, 6), one_forward_one_backward(4, 1, 6));
}

// A group of micro-batches that is not whole, as a text by hand.
TEST(Schedules, InterleavedHaveAnyNumberOfMicroBatches) {
  EXPECT_EQ(to_csv(interleaved(2, 2, 1)), "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n");
  EXPECT_EQ(to_csv(interleaved(2, 2, 3)),
            "0F0,0F1,2F0,2F1,0F2,2B0,2B1,2F2,0B0,0B1,2B2,0B2\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1B1,3F2,3B2,1B2\n");
}

TEST(Schedules, AreFoundByName) {
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : named_schedules()) names.emplace_back(schedule.name);
  EXPECT_THAT(names,
              ElementsAre("OneAtATime", "AllForwardAllBackward", "OneForwardOneBackward", "Interleaved", "ZeroBubble"));
  for (const NamedSchedule& schedule : named_schedules()) EXPECT_EQ(&named_schedule(schedule.name), &schedule);
  EXPECT_THAT(testing::message_of<Error>([] { named_schedule("GPipe"); }),
              AllOf(HasSubstr("\"GPipe\""), HasSubstr("one of OneAtATime, AllForwardAllBackward")));
}

TEST(Schedules, OfOneForwardOneBackwardProposeInterleavedForSeveralStagesPerRank) {
  EXPECT_THAT(testing::message_of<Error>([] { one_forward_one_backward(4, 2, 8); }),
              HasSubstr("1 stage per rank, found 2: choose Interleaved"));
}

}  // namespace
}  // namespace fsdp::stages
