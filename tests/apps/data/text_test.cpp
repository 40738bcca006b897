#include "data/text.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/temporary_folder.h"
#include "fsdp-train/inputs.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(const std::string& path) {
  try {
    read_text(path);
  } catch (const fsdp::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Text, IsAFilesBytes) {
  TemporaryFolder folder;
  const std::string bytes("caf\xc3\xa9\r\n\0\xff", 9);
  EXPECT_EQ(read_text(folder.write("a.txt", bytes)), bytes);
}

TEST(Text, IsAFoldersTextFilesInTheOrderOfTheirPaths) {
  TemporaryFolder folder;
  folder.write("b.txt", "second\n");
  folder.write("a/deep/one.md", "first");
  folder.write("c.bin", std::string("\x7f"
                                    "ELF\0\1",
                                    6));
  folder.write("d.txt", "");
  folder.write("e", "third\n");
  EXPECT_EQ(read_text(folder.path()), "first\nsecond\nthird\n");
}

TEST(Text, ErrorsNameTheThing) {
  TemporaryFolder folder;
  EXPECT_EQ(error_of(folder / "none.txt"), "text '" + (folder / "none.txt") + "' does not exist.");
  EXPECT_EQ(error_of(folder.write("empty.txt", "")), "text '" + (folder / "empty.txt") + "' is empty.");
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("'/dev/null' is neither a file nor a folder"));
  TemporaryFolder binary;
  binary.write("a.bin", std::string(10, '\0'));
  EXPECT_THAT(error_of(binary.path()), HasSubstr("is a folder without a text file"));
}

TEST(TextSplit, HoldsTheLastTwentiethBack) {
  const std::string text(1000, 'x');
  const TextSplit split = split_text(text, 16);
  EXPECT_EQ(split.training.size(), 950u);
  EXPECT_EQ(split.validation.size(), 50u);
  EXPECT_EQ(split.validation.data(), text.data() + 950);
}

TEST(TextSplit, HoldsNothingBackOfAShortText) {
  const std::string text(100, 'x');
  EXPECT_EQ(split_text(text, 16).training.size(), 100u);
  EXPECT_TRUE(split_text(text, 16).validation.empty());
}

TEST(TextSplit, RefusesATextWithoutAWindow) {
  EXPECT_EQ(split_text("12345", 4).training.size(), 5u);
  EXPECT_THROW(split_text("1234", 4), fsdp::Error);
}

TEST(Inputs, AllProblemsAreFoundAtOnce) {
  TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  Options options;
  options.text = folder / "none.txt";
  options.run = file + "/run";
  options.checkpoint = folder.path();
  EXPECT_THAT(read_inputs(options).problems, ElementsAre(HasSubstr("does not exist"), HasSubstr("has no manifest.json"),
                                                         HasSubstr("'" + file + "' is a file")));
}

TEST(Inputs, GoodOnesLeaveNoTrace) {
  TemporaryFolder folder;
  Options options;
  options.text = folder.write("text", std::string(500, 'x'));
  options.run = folder / "deep/run";
  const Inputs inputs = read_inputs(options);
  EXPECT_THAT(inputs.problems, IsEmpty());
  EXPECT_EQ(inputs.text.size(), 500u);
  EXPECT_FALSE(std::filesystem::exists(folder / "deep"));
}

}  // namespace
}  // namespace trainer
