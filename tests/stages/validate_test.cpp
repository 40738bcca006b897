// Schedules that cannot run are refused, with the place and the reason.
#include "stages/validate.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "stages/support.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string refusal_of(const std::string& csv) {
  return testing::message_of<Error>([&] { validate(read_csv(csv)); });
}

struct BadSchedule {
  const char* csv;
  const char* place;
  const char* problem;
};

TEST(Validate, NamesThePlaceAndTheExpectation) {
  const std::vector<BadSchedule> bad = {
      // Passes.
      {"0F0,0B0\n1F0\n", "rank 1, position 1 (end)", "1B0, or 1I0 and 1W0, is missing"},
      {"0F0,0B0,0F1\n", "rank 0, position 3 (end)", "0B1, or 0I1 and 0W1, is missing"},
      {"0F0,0I0\n", "rank 0, position 2 (end)", "0W0 is missing, expected each stage to run each of 1 micro-batches"},
      {"0B0\n", "rank 0, position 1 (end)", "0F0 is missing"},
      {"0B0,0F0\n", "rank 0, position 0 (0B0)", "expected 0F0 before it, found it at position 1"},
      {"0I0,0F0,0W0\n", "rank 0, position 0 (0I0)", "expected 0F0 before it, found it at position 1"},
      {"0F0,0W0,0I0\n", "rank 0, position 1 (0W0)", "expected 0I0 before it, found it at position 2"},
      {"0F0,0F0,0B0\n", "rank 0, position 1 (0F0)", "stands at position 0 too, expected each action once"},
      {"0F0,0B0,0W0\n", "rank 0, position 2 (0W0)", "0B0 at position 1 is the whole backward, expected no part of it"},
      {"0F0,0F1,0B1,0B0\n", "rank 0, position 2 (0B1)", "expected those of micro-batch 0 next"},
      {"0F0,0F1,0I1,0I0,0W1,0W0\n", "rank 0, position 4 (0W1)", "expected those of micro-batch 0 next"},
      {"0F0,0B0\n1F0,1B0,0F1\n", "rank 1, position 2 (0F1)", "stage 0 lies on rank 0, expected all its actions there"},
      // Progress.
      {"1F0,0F0,1B0,0B0\n", "rank 0, position 0 (1F0)", "waits for 0F0 of rank 0, position 1"},
      {"0F0,1F0,0B0,1I0,1W0\n", "rank 0, position 2 (0B0)", "waits for 1I0 of rank 0, position 3"},
      {"0F0,2F0,2B0,0B0\n1B0,1F0\n", "rank 1, position 0 (1B0)", "expected 1F0 before it"},
      {"2F0,0F0,2B0,0B0\n1F0,1B0\n", "rank 0, position 0 (2F0)", "rank 1, position 0: 1F0 waits for 0F0 of rank 0"},
      {"0F0,(1F0;1B0)OVERLAP_F_B,0B0\n", "rank 0, position 1 (1F0)", "waits for 1F0 of rank 0, position 1"},
      // Messages.
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n", "rank 1, position 3 (end)",
       "1RECV_F0 is missing, expected it for rank 0"},
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n", "rank 1, position 3 (end)", "1SEND_B0 is missing"},
      {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "rank 0, position 0 (0SEND_F0)",
       "expected the pass whose result it sends before it, found it at position 1"},
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n", "rank 1, position 0 (1F0)",
       "expected 1RECV_F0 before it, found it at position 1"},
      {"0F0,0SEND_F0,0B0,0SEND_B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "rank 0, position 3 (0SEND_B0)",
       "there is no stage at the other end"},
      {"0F0,0SEND_F0,1F0,1B0,0B0\n", "rank 0, position 1 (0SEND_F0)", "stage 1 lies on this rank too"},
      {"0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n"
       "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n",
       "rank 1, position 0 (1RECV_F0)", "expected 1RECV_F1 first, because rank 0 sends it first, at position 2"},
      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
       "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
       "rank 0, position 3 (0SEND_F1)", "rank 1, position 3: 1SEND_B0 waits for 0RECV_B0 of rank 0, position 4"},
      // Shards.
      {"0UNSHARD,0F0,0RESHARD,0B0\n", "rank 0, position 3 (0B0)", "the stage is not full, expected 0UNSHARD before it"},
      {"0UNSHARD,0UNSHARD,0F0,0B0,0RESHARD\n", "rank 0, position 1 (0UNSHARD)", "the stage is full already"},
      {"0UNSHARD,0F0,0B0\n", "rank 0, position 3 (end)", "stage 0 is full, expected 0RESHARD"},
      {"0F0,0B0,0RESHARD\n", "rank 0, position 2 (0RESHARD)", "the stage is not full, expected UNSHARD before it"},
      {"0F0,0I0,0REDUCE_GRAD,0W0\n", "rank 0, position 2 (0REDUCE_GRAD)", "the gradients of 0 of 1 micro-batches"},
      {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n", "rank 0, position 3 (0REDUCE_GRAD)", "expected one reduction"},
      {"0F0,0B0,0REDUCE_GRAD\n1F0,1B0\n", "rank 1, position 2 (end)", "1REDUCE_GRAD is missing"},
  };
  for (const auto& [csv, place, problem] : bad) {
    EXPECT_THAT(refusal_of(csv), AllOf(HasSubstr(std::string("schedule of a pipeline, ") + place + ": "),
                                       HasSubstr(problem), HasSubstr("<--")))
        << csv;
  }
}

TEST(Validate, NamesAStageOfNoRank) {
  EXPECT_THAT(refusal_of("0F0,0B0\n2F0,2B0\n"), HasSubstr("stage 1 of 3 lies on no rank"));
  EXPECT_THAT(refusal_of("1048575F1048575\n"), HasSubstr("stage 0 of 1048576 lies on no rank"));
  EXPECT_THAT(refusal_of("0F1048575,0B1048575\n"), HasSubstr("0F0 is missing"));
  EXPECT_THAT(refusal_of(",,\n"), HasSubstr("found 1 ranks, 0 stages and 0 micro-batches"));
}

TEST(Validate, RefusesAScheduleByHandWhoseNumbersDoNotFit) {
  const auto refusal = [](const StageSchedule& schedule) {
    return testing::message_of<Error>([&] { validate(schedule); });
  };
  StageSchedule schedule = one_forward_one_backward(2, 1, 2);
  schedule.rank_of_stage[1] = 2;
  EXPECT_THAT(refusal(schedule), HasSubstr("stage 1 of 2 lies on no rank"));
  schedule.rank_of_stage = {0};
  EXPECT_THAT(refusal(schedule), HasSubstr("rank 1, position 0 (1F0): expected a stage from 0 to 0"));
  schedule = one_forward_one_backward(2, 1, 2);
  schedule.micro_batches = 1;
  EXPECT_THAT(refusal(schedule), HasSubstr("rank 0, position 1 (0F1): expected a micro-batch from 0 to 0"));
}

TEST(Validate, DrawsTheScheduleAroundThePlace) {
  const std::string message = refusal_of("0F0,,0F1,0B0,0B1,\n,1F0,1B0,1F1,,1B1,1B1\n");
  const size_t grid = message.find("\n\n");
  ASSERT_NE(grid, std::string::npos);
  EXPECT_EQ(message.substr(grid + 2), R"(position  rank 0  rank 1
       2  0F1     1B0
       3  0B0     1F1
       4  0B1
       5          1B1
       6          1B1 <--
)");
}

TEST(Validate, DrawsFewRanksAndPositionsOfALargeSchedule) {
  StageSchedule schedule = one_forward_one_backward(64, 1, 200);
  std::swap(schedule.ranks[40][100], schedule.ranks[40][101]);
  std::swap(schedule.ranks[40][100], schedule.ranks[40][102]);
  const std::string message = testing::message_of<Error>([&] { validate(schedule); });
  EXPECT_THAT(message, AllOf(StartsWith("[fsdp] schedule of a pipeline, rank 40, position "), HasSubstr("rank 36"),
                             HasSubstr("rank 44"), Not(HasSubstr("rank 35 ")), Not(HasSubstr("rank 45 "))));
  EXPECT_EQ(std::ranges::count(message, '\n'), 2 + 10);
}

TEST(Validate, AcceptsTextsByHand) {
  for (const char* csv : {"0F0,0B0\n", "0F0,0F1,0I1,0I0,0W0,0W1\n", "0F0,1F0,1B0,0I0,0W0\n", "0F0,0B0\n1F0,1B0\n",
                          "0UNSHARD,0F0,0I0,0RESHARD,0W0,0REDUCE_GRAD\n", "(0F0;1F0)OVERLAP_F_B,1B0,0B0\n"}) {
    const bool joined = csv[0] == '(';  // 1F0 needs 0F0, with which it would begin
    EXPECT_EQ(refusal_of(csv) == "no error", !joined) << csv;
  }
}

}  // namespace
}  // namespace fsdp::stages
