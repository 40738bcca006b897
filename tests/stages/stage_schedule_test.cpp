// Schedules as text.
#include "stages/stage_schedule.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "stages/support.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StageActionText, NamesStageKindAndMicroBatch) {
  const std::vector<std::pair<StageAction, std::string>> texts = {
      {{}, ""},
      {{.kind = Kind::Forward, .stage = 2, .micro_batch = 0}, "2F0"},
      {{.kind = Kind::Backward, .stage = 2, .micro_batch = 10}, "2B10"},
      {{.kind = Kind::InputGradient, .stage = 12, .micro_batch = 0}, "12I0"},
      {{.kind = Kind::WeightGradient, .stage = 0, .micro_batch = 3}, "0W3"},
      {{.kind = Kind::SendForward, .stage = 3, .micro_batch = 1}, "3SEND_F1"},
      {{.kind = Kind::ReceiveForward, .stage = 3, .micro_batch = 1}, "3RECV_F1"},
      {{.kind = Kind::SendBackward, .stage = 3, .micro_batch = 1}, "3SEND_B1"},
      {{.kind = Kind::ReceiveBackward, .stage = 3, .micro_batch = 1}, "3RECV_B1"},
      {{.kind = Kind::Gather, .stage = 1}, "1UNSHARD"},
      {{.kind = Kind::Release, .stage = 1}, "1RESHARD"},
      {{.kind = Kind::Reduce, .stage = 1}, "1REDUCE_GRAD"},
  };
  ASSERT_EQ(texts.size(), StageAction::kKinds);
  for (const auto& [action, text] : texts) {
    EXPECT_EQ(to_string(action), text);
    EXPECT_EQ(action_of(text), action) << text;
  }
}

TEST(StageActionText, IsNoneWhereItCannotBe) {
  for (const char* text : {"F",    "2",    "F0",   "2F",        "2F-1",      "-2F0",          "2F0x",
                           "2X0",  "2f0",  "2BW0", "2UNSHARD0", "2SEND_F",   "2SEND",         "2 F0",
                           " 2F0", "2F0 ", "+2F0", "1048576F0", "0F1048576", "99999999999F0", "2F0.5"})
    EXPECT_EQ(action_of(text), std::nullopt) << text;
}

TEST(StageActionText, OfAMessageHasAnotherEnd) {
  const std::vector<std::pair<const char*, const char*>> ends = {{"2SEND_F0", "3RECV_F0"}, {"3SEND_B0", "2RECV_B0"}};
  for (const auto& [send, receive] : ends) {
    EXPECT_EQ(to_string(other_end(*action_of(send))), receive);
    EXPECT_EQ(to_string(other_end(*action_of(receive))), send);
  }
}

TEST(StageScheduleText, HasALinePerRankAndACellPerAction) {
  const std::string text = "0F0,,0B0\n,1F0,1B0\n";
  const StageSchedule schedule = read_csv(text);
  EXPECT_THAT(texts_of(schedule.ranks[0]), ElementsAre("0F0", "", "0B0"));
  EXPECT_THAT(texts_of(schedule.ranks[1]), ElementsAre("", "1F0", "1B0"));
  EXPECT_THAT(schedule.rank_of_stage, ElementsAre(0, 1));
  EXPECT_EQ(schedule.micro_batches, 1);
  EXPECT_EQ(to_csv(schedule), text);
  EXPECT_EQ(to_csv(without_idle(schedule)), "0F0,0B0\n1F0,1B0\n");
}

TEST(StageScheduleText, MayHaveOtherEndsOfLinesAndBlanks) {
  EXPECT_EQ(to_csv(read_csv(" 0F0, 0F1 , ( 0F2;0B0\t)OVERLAP_F_B\r\n \r\n1F0")),
            "0F0,0F1,(0F2;0B0)OVERLAP_F_B\n\n1F0\n");
}

TEST(StageScheduleText, JoinsPassesThatRunAtTheSameTime) {
  const std::string text = "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n";
  const StageSchedule schedule = read_csv(text);
  EXPECT_EQ(to_csv(schedule), text);
  EXPECT_EQ(together(schedule.ranks[0], 0).size(), 1u);
  EXPECT_EQ(together(schedule.ranks[0], 1).size(), 2u);
  EXPECT_EQ(together(schedule.ranks[0], 2).size(), 1u);
}

std::string message_of_csv(const std::string& text) {
  return testing::message_of<Error>([&] { read_csv(text); });
}

TEST(StageScheduleText, SaysWhereItIsNone) {
  EXPECT_THAT(message_of_csv(""), HasSubstr("found no text, expected a line of actions for each rank"));
  EXPECT_THAT(message_of_csv("0F0,0B0\n1F0,1X0\n"),
              AllOf(HasSubstr("row 2, column 2: found \"1X0\""), HasSubstr("such as 2F0")));
  EXPECT_THAT(message_of_csv("0F0,0B\x01\n"), HasSubstr("row 1, column 2: found \"0B\\x01\""));
  for (const char* cell : {"(0F1)OVERLAP_F_B", "(0F1;0B0)", "(0F1;0B0", "(0F1;0B0)OVERLAP", "()OVERLAP_F_B", "("})
    EXPECT_THAT(message_of_csv(std::string("0F0,") + cell + "\n"),
                AllOf(HasSubstr("row 1, column 2"), HasSubstr("such as (0F7;7B3)OVERLAP_F_B")))
        << cell;
  EXPECT_THAT(message_of_csv("(0F0;0UNSHARD)OVERLAP_F_B"), HasSubstr("found \"0UNSHARD\" among passes"));
  EXPECT_THAT(message_of_csv("(0F0;2)OVERLAP_F_B"), HasSubstr("row 1, column 1: found \"2\""));
}

}  // namespace
}  // namespace fsdp::stages
