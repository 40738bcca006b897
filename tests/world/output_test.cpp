#include "world/output.h"

#include <gtest/gtest.h>

namespace fsdp::world {
namespace {

TEST(LinePrefixer, PassesOnWholeLines) {
  LinePrefixer prefixer("> ");
  EXPECT_EQ(prefixer.feed("one\ntw"), "> one\n");
  EXPECT_EQ(prefixer.feed("o"), "");
  EXPECT_EQ(prefixer.feed("\n\nthree"), "> two\n> \n");
  EXPECT_EQ(prefixer.finish(), "> three\n");
  EXPECT_EQ(prefixer.finish(), "");
}

TEST(LinePrefixer, MakesLinesOfAProgressBar) {
  LinePrefixer prefixer("> ");
  EXPECT_EQ(prefixer.feed("\r10%\r20"), "> 10%\n");
  EXPECT_EQ(prefixer.feed("%\r"), "> 20%\n");
  EXPECT_EQ(prefixer.feed("\ndone\r\n"), "> done\n");
  EXPECT_EQ(prefixer.feed("a\r\r\nb\n"), "> a\n> b\n");
}

TEST(LinePrefixer, CutsALineWithoutAnEnd) {
  LinePrefixer prefixer("> ");
  EXPECT_EQ(prefixer.feed(std::string(70000, 'x')).size(), 65536u + 3);
}

}  // namespace
}  // namespace fsdp::world
