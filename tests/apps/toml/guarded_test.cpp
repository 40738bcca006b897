// TOML that nests too deep is refused before anything recurses over it; all else is the parser's.
#include "toml/guarded.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace guarded_toml {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

std::string error_of(const std::string& text) {
  return message_of<toml::parse_error>([&] { parse(text); });
}

TEST(GuardedToml, RefusesWhatNestsTooDeep) {
  for (const int times : {65, 200, 200'000}) {
    for (const std::string& text :
         {repeated("a.", times) + "a = 1", "[" + repeated("a.", times) + "a]", "[[" + repeated("a.", times) + "a]]",
          "a = " + repeated("[", times) + repeated("]", times), "a = " + repeated("{a = ", times),
          "a = " + repeated("{a.a = [", times), repeated("\"\".", times) + "a = 1",
          "a = \"\"\"x\"\"\"\"\nb" + repeated(".b", times) + " = \"y\"", repeated("'a' . ", times) + "a = 1",
          "x = 1.5 # \"\n" + repeated("a.", times) + "a = ''", "a = [1.5, {b" + repeated(".c", times) + " = 1}]"}) {
      EXPECT_THAT(error_of(text), HasSubstr("nest deeper than 64 levels")) << text.substr(0, 100);
    }
  }
}

TEST(GuardedToml, SaysWhere) {
  try {
    parse("x = 1\ny = 2\n" + repeated("a.", 100) + "a = 1\n");
    FAIL();
  } catch (const toml::parse_error& error) {
    EXPECT_EQ(error.source().begin.line, 3u);
    EXPECT_EQ(error.source().begin.column, 130u);
  }
}

TEST(GuardedToml, TakesWhatOnlyLooksDeep) {
  const std::string dots = repeated("[.{", 1000);
  for (const std::string& text :
       {"a = \"" + dots + "\"", "a = '" + dots + "'", "a = \"\"\"\n" + dots + "\n\"" + dots + "\"\"\"\"\"",
        "a = '''\n" + dots + "'" + dots + "'''", "# " + dots + "\na = 1", "a = \"\\\"" + dots + "\"",
        "a = [" + repeated("1.5, ", 1000) + "]", "a = [" + repeated("[1], ", 1000) + "]",
        "a = [\n" + repeated("{b.c = 1.5, d = 'x'},\n", 1000) + "]", repeated("[[a.b]]\nc.d = 1.5\n", 1000),
        std::string("a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd.e = 1.5"), repeated("a.", 60) + "a = [[1]]"}) {
    EXPECT_EQ(error_of(text), "no error") << text.substr(0, 100);
  }
}

TEST(GuardedToml, ReadsRegularFilesOfSomeLengthOnly) {
  const TemporaryFolder folder;
  const auto reading_error = [](const std::string& path) {
    return message_of<fsdp::Error>([&] { read(path, "config '" + path + "'"); });
  };
  EXPECT_EQ(read(folder.write("a.toml", "a = 7"), "config").at("a").value<int>(), 7);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink("loop", (folder / "loop").c_str()), 0);
  const std::string large = folder.write("large", "");
  std::filesystem::resize_file(large, int64_t{5} << 30);
  EXPECT_EQ(reading_error(folder / "none"),
            "config '" + (folder / "none") + "' cannot be read: No such file or directory.");
  EXPECT_THAT(reading_error(folder / "pipe"), HasSubstr("pipe' cannot be read: it is not a regular file"));
  EXPECT_THAT(reading_error(folder / "loop"), HasSubstr("loop' cannot be read: Too many levels of symbolic links"));
  EXPECT_THAT(reading_error(folder.path().string()), HasSubstr("is not a regular file"));
  EXPECT_THAT(reading_error("/dev/zero"), HasSubstr("is not a regular file"));
  EXPECT_THAT(reading_error(large), HasSubstr("large' has 5368709120 bytes, expected at most 1048576"));
}

}  // namespace
}  // namespace guarded_toml
