// Schedules that PyTorch's tests use (tests/stages/golden/README.md).
#include <gmock/gmock.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "stages/rewrites.h"
#include "stages/support.h"
#include "stages/validate.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

const std::vector<std::string> kGoldenFiles = {"zb1p_2rank_2stagep_compute", "zb1p_2rank_2stagep_comms",
                                               "dualpipev_4rank_10mb"};

std::string golden_text(const std::string& name) {
  std::ifstream file(std::string(FSDP_DOCS) + "/../tests/stages/golden/" + name + ".csv");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(GoldenSchedules, AreValidAndTheSameAfterReadingAndWriting) {
  for (const std::string& name : kGoldenFiles) {
    const std::string text = golden_text(name);
    ASSERT_GT(text.size(), 300u) << name;
    const StageSchedule schedule = read_csv(text);
    EXPECT_EQ(to_csv(schedule), text) << name;
    EXPECT_NO_THROW(validate(schedule)) << name;
  }
}

TEST(GoldenSchedules, OfZeroBubbleAreOurs) {
  const StageSchedule ours = zero_bubble(2, 2, 8);
  EXPECT_EQ(to_csv(ours), to_csv(without_idle(read_csv(golden_text("zb1p_2rank_2stagep_compute")))));
  EXPECT_EQ(to_csv(add_messages(join_backwards(ours))), golden_text("zb1p_2rank_2stagep_comms"));
}

TEST(GoldenSchedules, WithPassesAtTheSameTimeGetMessages) {
  const StageSchedule schedule = read_csv(golden_text("dualpipev_4rank_10mb"));
  const StageSchedule with_messages = add_messages(schedule);
  EXPECT_NO_THROW(validate(with_messages));
  EXPECT_THAT(to_csv(with_messages), ::testing::HasSubstr("(0F7;7B3)OVERLAP_F_B,0SEND_F7,7SEND_B3,"));
}

// Damaged texts are refused, or are other schedules.
TEST(GoldenSchedules, AreReadWithoutHarmIfDamaged) {
  std::mt19937 random(7);
  const std::string bytes = "0123456789FBIW_SENDRECV,;()\n\r -x";
  int refused = 0, read = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = golden_text(kGoldenFiles[i % kGoldenFiles.size()]).substr(0, 60 + random() % 200);
    for (unsigned changes = 1 + random() % 2; changes > 0; --changes)
      text[random() % text.size()] = bytes[random() % bytes.size()];
    const std::string message = testing::message_of<Error>([&] {
      const StageSchedule schedule = read_csv(text);
      EXPECT_EQ(to_csv(read_csv(to_csv(schedule))), to_csv(schedule)) << text;
      validate(schedule);
    });
    ++(message == "no error" ? read : refused);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_EQ(refused + read, 1500);
}

}  // namespace
}  // namespace fsdp::stages
