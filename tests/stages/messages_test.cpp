// Sends and receives between stages on different ranks.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "stages/rewrites.h"
#include "stages/support.h"
#include "stages/validate.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using ::testing::HasSubstr;

TEST(Messages, StandBehindTheirPassAndWhereTheReceiverIsAtThatMoment) {
  EXPECT_EQ(to_csv(add_messages(one_forward_one_backward(2, 1, 2))),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(Messages, LieOnlyBetweenRanks) {
  EXPECT_EQ(to_csv(add_messages(read_csv("0F0,1F0,,1B0,0B0\n"))), "0F0,1F0,1B0,0B0\n");
}

TEST(Messages, AreNotAddedTwice) {
  const StageSchedule schedule = add_messages(one_forward_one_backward(2, 1, 2));
  EXPECT_THAT(testing::message_of<Error>([&] { add_messages(schedule); }), HasSubstr("expected passes alone"));
}

TEST(Messages, OfAScheduleThatCannotRunAreRefused) {
  EXPECT_THAT(testing::message_of<Error>([] { add_messages(read_csv("1F0,0F0,1B0,0B0\n")); }), HasSubstr("deadlock"));
}

TEST(Messages, OfRandomSchedulesNeverWaitForEver) {
  std::mt19937 random(1);
  int with_messages = 0, divided = 0;
  for (int i = 0; i < 400; ++i) {
    const StageSchedule schedule = random_schedule(random);
    SCOPED_TRACE(to_csv(schedule));
    ASSERT_NO_THROW(validate(schedule));
    ASSERT_TRUE(is_valid(schedule));
    for (const StageSchedule& passes : {schedule, join_backwards(schedule)}) {
      const StageSchedule complete = add_messages(passes);
      with_messages += has_messages(complete);
      ASSERT_NO_THROW(validate(complete));
      ASSERT_TRUE(is_valid(complete));
      StageSchedule again = complete;
      for (auto& actions : again.ranks)
        std::erase_if(actions, [](const StageAction& action) { return is_message(action.kind); });
      EXPECT_EQ(again, passes);
    }
    divided += to_csv(join_backwards(schedule)) != to_csv(schedule);
  }
  EXPECT_GT(with_messages, 300);
  EXPECT_GT(divided, 100);
}

// Rank 0 sends and waits for a receive that stands behind rank 1's own send, which waits for rank 0.
TEST(Messages, ThatCrossAreRefused) {
  StageSchedule schedule = add_messages(one_forward_one_backward(2, 1, 2));
  auto& actions = schedule.ranks[1];
  const auto receive = std::ranges::find(actions, *action_of("1RECV_F1"));
  std::rotate(receive, receive + 1, receive + 3);  // behind 1SEND_B0, which rank 0 receives only after 0SEND_F1
  EXPECT_THAT(testing::message_of<Error>([&] { validate(schedule); }), HasSubstr("deadlock"));
}

}  // namespace
}  // namespace fsdp::stages
