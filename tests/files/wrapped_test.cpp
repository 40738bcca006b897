#include "files/wrapped.h"

#include <gtest/gtest.h>

namespace fsdp::files {
namespace {

TEST(Wrapped, LeavesALineThatFits) {
  EXPECT_EQ(wrapped("It is damaged. Use another.\n", 40), "It is damaged. Use another.\n");
  EXPECT_EQ(wrapped("", 40), "");
  EXPECT_EQ(wrapped("\n\n", 40), "\n\n");
}

TEST(Wrapped, BreaksALongLineAtWordsAndIndentsTheRest) {
  EXPECT_EQ(wrapped("  the quick brown fox jumps over it\nshort\n", 20),
            "  the quick brown\n"
            "    fox jumps over\n"
            "    it\n"
            "short\n");
}

TEST(Wrapped, GivesTheRemedyALineOfItsOwn) {
  EXPECT_EQ(wrapped("[fsdp rank 0/2] step-4 is damaged. Use an older checkpoint.", 40),
            "[fsdp rank 0/2] step-4 is damaged.\n"
            "  Use an older checkpoint.");
  EXPECT_EQ(wrapped("version 1.2 of e.g. this is unknown? Take version 1.3 then.", 40),
            "version 1.2 of e.g. this is unknown?\n"
            "  Take version 1.3 then.");
}

TEST(Wrapped, BreaksNoWord) {
  EXPECT_EQ(wrapped("'/a/very/long/path/of/a/file' is missing", 20),
            "'/a/very/long/path/of/a/file'\n"
            "  is missing");
}

TEST(Wrapped, CountsCharactersAndNotBytes) {
  EXPECT_EQ(wrapped("äöü äöü äöü äöü äöü", 19), "äöü äöü äöü äöü äöü");
  EXPECT_EQ(wrapped("äöü äöü äöü äöü äöü.", 19), "äöü äöü äöü äöü\n  äöü.");
}

TEST(Wrapped, KeepsBlanksBetweenWordsOfALine) {
  EXPECT_EQ(wrapped("--seed      1      2 and so on", 22), "--seed      1      2\n  and so on");
}

}  // namespace
}  // namespace fsdp::files
