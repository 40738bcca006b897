// Whole backwards of divided ones.
#include <gmock/gmock.h>

#include "stages/rewrites.h"

namespace fsdp::stages {
namespace {

std::string joined_text(const std::string& csv) { return to_csv(join_backwards(read_csv(csv))); }

TEST(JoinBackwards, JoinsNeighboursOfOneStageAndMicroBatch) {
  EXPECT_EQ(joined_text("0F0,0I0,0W0\n"), "0F0,0B0\n");
  EXPECT_EQ(joined_text("0F0,0I0,0F1,0W0,0I1,0W1\n"), "0F0,0I0,0F1,0W0,0B1\n");
  EXPECT_EQ(joined_text("0F0,0F1,0I0,0I1,0W0,0W1\n"), "0F0,0F1,0I0,0I1,0W0,0W1\n");
  EXPECT_EQ(joined_text("0F0,1F0,1I0,0I0,1W0,0W0\n"), "0F0,1F0,1I0,0I0,1W0,0W0\n");
}

TEST(JoinBackwards, LeavesOtherPassesOfACellTogether) {
  EXPECT_EQ(joined_text("0F0,(0F1;0I0)OVERLAP_F_B,0W0,0B1\n"), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  EXPECT_EQ(joined_text("0F0,0F1,(0I0;0W0)OVERLAP_F_B,0B1\n"), "0F0,0F1,0B0,0B1\n");
}

}  // namespace
}  // namespace fsdp::stages
