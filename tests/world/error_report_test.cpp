#include "world/error_report.h"

#include <gtest/gtest.h>

namespace fsdp::world {
namespace {

TEST(ErrorLines, NameTheRankOfItsOwnError) {
  EXPECT_EQ(error_lines({{1, {"[fsdp rank 1/2] no such file"}}}, 2, {}), "[fsdp rank 1/2] no such file\n");
}

TEST(ErrorLines, NameAllRanksOnce) {
  EXPECT_EQ(error_lines({{0, {"[fsdp rank 0/2] no memory"}}, {1, {"[fsdp rank 1/2] no memory"}}}, 2, {}),
            "[fsdp] all 2 ranks: no memory\n");
  EXPECT_EQ(error_lines({{0, {"[fsdp rank 0/3 unit=head] no memory"}},
                         {1, {"[fsdp rank 1/3] out of paper"}},
                         {2, {"[fsdp rank 2/3 unit=head] no memory"}}},
                        3, {}),
            "[fsdp unit=head] ranks 0, 2: no memory\n"
            "[fsdp rank 1/3] out of paper\n");
}

TEST(ErrorLines, LeaveOutAnErrorThatQuotesAnother) {
  EXPECT_EQ(error_lines({{0, {"[fsdp rank 0/2] the file is damaged."}},
                         {1, {"[fsdp rank 1/2] load failed on rank 0: [fsdp rank 0/2] the file is damaged."}}},
                        2, {}),
            "[fsdp rank 0/2] the file is damaged.\n");
}

TEST(ErrorLines, LeaveOutAMissedPeerWhereTheCauseIsKnown) {
  const ErrorOfRank missed{0, {"[fsdp rank 0/2] barrier: rank 1 is gone", Origin::Peer}};
  const ErrorOfRank cause{1, {"[fsdp rank 1/2] out of paper"}};
  EXPECT_EQ(error_lines({missed}, 2, {}), "[fsdp rank 0/2] barrier: rank 1 is gone\n");
  EXPECT_EQ(error_lines({missed, cause}, 2, {}), "[fsdp rank 1/2] out of paper\n");
  EXPECT_EQ(error_lines({missed}, 2, {cause}), "");
}

TEST(ErrorLines, LeaveOutWhatIsPrintedAlready) {
  EXPECT_EQ(error_lines({{1, {"[fsdp rank 1/2] no memory"}}}, 2, {{0, {"[fsdp rank 0/2] no memory"}}}), "");
}

}  // namespace
}  // namespace fsdp::world
