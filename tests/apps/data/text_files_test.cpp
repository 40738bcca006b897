#include "data/text_files.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/data/support.h"
#include "data/byte_tokens.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read_all(const TextFiles& text) {
  std::string bytes(static_cast<size_t>(text.size()), '\0');
  text.read(0, bytes);
  return bytes;
}

std::string text_of(const fs::path& path) { return read_all(TextFiles(path)); }

std::string error_of(const fs::path& path) {
  return message_of<fsdp::Error>([&] { TextFiles text(path); });
}

TEST(TextFiles, AFileIsItsBytes) {
  TemporaryFolder folder;
  const std::string bytes("caf\xc3\xa9\r\n\xff");
  EXPECT_EQ(text_of(folder.write("a.txt", bytes)), bytes);
}

TEST(TextFiles, AFileThatIsNoTextIsRefusedAsInAFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      error_of(folder.write("a.bin", std::string("ab\0c", 4))),
      HasSubstr("a.bin' is no text: byte 2 is NUL. Name a file in UTF-8. Files of tokens are named with --data."));
  const std::string pdf = folder.write("a.pdf", "%PDF-1.7\n%\xe2\xe3\n");
  EXPECT_THAT(error_of(pdf), HasSubstr("a.pdf' is a PDF, and texts are read as UTF-8. Convert it: pdftotext - - < '" +
                                       pdf + "' > '" + pdf + ".utf8.txt'"));
  folder.write("b.txt", "text\n");
  EXPECT_EQ(TextFiles(folder.path()).facts().binary.count, 2);
  EXPECT_EQ(text_of(folder.path()), "text\n");
}

TEST(TextFiles, AFolderIsItsTextFilesInTheOrderOfTheirPaths) {
  TemporaryFolder folder;
  folder.write("b.txt", "second\n");
  folder.write("a/deep/one.md", "first");
  folder.write("c.bin", std::string("\x7f"
                                    "ELF\0\1",
                                    6));
  folder.write("d.txt", "");
  folder.write("e", "third\n");
  ASSERT_EQ(symlink("b.txt", (folder / "f").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (folder / "g").c_str()), 0);
  EXPECT_EQ(text_of(folder.path()), "first\nsecond\nthird\nsecond\n");
}

TEST(TextFiles, WhatCannotBeATextIsPassedOverAndTold) {
  TemporaryFolder folder;
  folder.write("a.txt", "first\n");
  folder.write("deep/b.txt", "second\n");
  fs::create_symlink("c-loop", folder / "c-loop");
  fs::create_symlink("nowhere", folder / "d-dangling");
  fs::create_directory_symlink("..", folder / "deep/e-up");
  ASSERT_EQ(mkfifo((folder / "f-pipe").c_str(), 0600), 0);
  folder.write("g-binary", std::string(10, '\0'));
  folder.write("z.txt", "third\n");
  const TextFiles text(folder.path());
  EXPECT_EQ(read_all(text), "first\nsecond\nthird\n");
  EXPECT_THAT(text.passed_over(), ElementsAre(HasSubstr("c-loop' cannot be read: Too many levels of symbolic links"),
                                              HasSubstr("d-dangling' cannot be read: No such file or directory"),
                                              HasSubstr("deep/e-up' is a link to a folder"),
                                              HasSubstr("f-pipe' cannot be read: it is not a regular file")));
  EXPECT_THAT(passed_over_text(text.passed_over()), StartsWith("passed over 4:\n  text '"));
  EXPECT_EQ(passed_over_text({}), "");
}

TEST(TextFiles, KnowWhatWasSkippedInTheirFolder) {
  TemporaryFolder folder;
  folder.write("a.txt", "first\n");
  folder.write(".git/config", "hidden\n");
  folder.write("deep/.DS_Store", "hidden\n");
  folder.write("deep/b.txt", "second\r\nthird\r\n");
  folder.write("c-binary", std::string("\x7f"
                                       "ELF\0",
                                       5));
  folder.write("d-empty", "");
  folder.write("e-empty", "");
  folder.write("\x1b-mixed", "a\nb\r\n");
  fs::create_directory_symlink("deep", folder / ".link");
  const TextFiles text(folder.path());
  EXPECT_EQ(read_all(text), "a\nb\r\nfirst\nsecond\r\nthird\r\n");
  const TextFacts expected{
      .hidden = {3, ".git"}, .binary = {1, "c-binary"}, .empty = {2, "d-empty"}, .crlf = {1, "deep/b.txt"}};
  EXPECT_EQ(text.facts().hidden, expected.hidden);
  EXPECT_EQ(text.facts().binary, expected.binary);
  EXPECT_EQ(text.facts().empty, expected.empty);
  EXPECT_EQ(text.facts().crlf, expected.crlf);
  EXPECT_FALSE(text.facts().not_utf8.has_value());
  EXPECT_EQ(text.passed_over().size(), 0u);
  EXPECT_EQ(text.place(0), "\\x1b-mixed, byte 0");
}

TEST(TextFiles, ThatAreNamedMayBeHidden) {
  TemporaryFolder folder;
  folder.write(".hidden/a.txt", "first\r\n");
  EXPECT_EQ(text_of(folder / ".hidden"), "first\r\n");
  EXPECT_EQ(text_of(folder / ".hidden/a.txt"), "first\r\n");
  EXPECT_EQ(TextFiles(folder / ".hidden/a.txt").facts().crlf, (Seen{1, "a.txt"}));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("It skipped 1 hidden file or folder, .hidden."));
}

TEST(TextFiles, WhatMayNotBeReadIsPassedOverAndTold) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  TemporaryFolder folder;
  folder.write("a.txt", "first\n");
  folder.write("closed/b.txt", "second\n");
  folder.write("secret.txt", "third\n");
  fs::permissions(folder / "closed", fs::perms::none);
  fs::permissions(folder / "secret.txt", fs::perms::none);
  const TextFiles text(folder.path());
  fs::permissions(folder / "closed", fs::perms::owner_all);
  EXPECT_EQ(read_all(text), "first\n");
  EXPECT_THAT(text.passed_over(), ElementsAre(HasSubstr("closed' cannot be read: Permission denied"),
                                              HasSubstr("secret.txt' cannot be read: Permission denied")));
}

TEST(TextFiles, NamesOfOthersDoNothingToATerminal) {
  TemporaryFolder folder;
  folder.write("a.txt", "first\n");
  fs::create_symlink("nowhere", folder / "\x1b[2J");
  EXPECT_THAT(TextFiles(folder.path()).passed_over(),
              ElementsAre(HasSubstr("/\\x1b[2J' cannot be read: No such file or directory")));
}

// One folder in another, more than a stack or a path has room for.
TEST(TextFiles, AFolderMayBeDeep) {
  TemporaryFolder folder;
  folder.write("a.txt", "first\n");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(mkdir("folder", 0700), 0);
    ASSERT_EQ(chdir("folder"), 0);
  }
  fs::current_path(before);
  const TextFiles text(folder.path());
  EXPECT_EQ(read_all(text), "first\n");
  EXPECT_THAT(text.passed_over(), ElementsAre(HasSubstr("cannot be read: File name too long")));
}

TEST(TextFiles, ErrorsNameTheThing) {
  TemporaryFolder folder;
  EXPECT_EQ(error_of(folder / "none.txt"), "text '" + (folder / "none.txt") + "' does not exist.");
  EXPECT_EQ(error_of(folder.write("empty.txt", "")), "text '" + (folder / "empty.txt") + "' is empty.");
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("'/dev/null' is neither a file nor a folder"));
  TemporaryFolder binary;
  binary.write("a.bin", std::string(10, '\0'));
  EXPECT_THAT(error_of(binary.path()), HasSubstr("is a folder without a text file"));
  ASSERT_EQ(symlink("loop", (folder / "loop").c_str()), 0);
  EXPECT_THAT(error_of(folder / "loop"), HasSubstr("cannot be read: Too many levels of symbolic links"));
}

// A large file is mapped and the small ones are not; any range reads the same.
TEST(TextFiles, LargeAndSmallFilesAreReadAlike) {
  TemporaryFolder folder;
  std::string large;
  while (large.size() < 3'000'000) large += "line " + std::to_string(large.size()) + "\n";
  large += "no newline";
  folder.write("b", large);
  folder.write("a", "first");
  folder.write("c", "last\n");
  const TextFiles text(folder.path());
  const std::string expected = "first\n" + large + "\nlast\n";
  ASSERT_EQ(text.size(), static_cast<int64_t>(expected.size()));
  EXPECT_EQ(read_all(text), expected);
  for (size_t first : {size_t{0}, size_t{3}, size_t{5}, size_t{6}, expected.size() - 12, expected.size() - 6}) {
    for (size_t count = 1; count < 12 && first + count <= expected.size(); ++count) {
      std::string found(count, '\0');
      text.read(static_cast<int64_t>(first), found);
      EXPECT_EQ(found, expected.substr(first, count));
    }
  }
  EXPECT_EQ(text.where(7), "text '" + (folder / "b") + "', byte 1");
  EXPECT_EQ(text.end_of_file(0), 6);
  EXPECT_EQ(text.end_of_file(5), 6);
}

TEST(TextFiles, NoticesThatAFileHasShrunk) {
  TemporaryFolder folder;
  const std::string small = folder.write("a", std::string(1000, 'a')),
                    large = folder.write("b", std::string(2 << 20, 'b'));
  const TextFiles text(folder.path());
  ASSERT_EQ(truncate(small.c_str(), 10), 0);
  ASSERT_EQ(truncate(large.c_str(), 10), 0);
  std::string bytes(500, '\0');
  EXPECT_THAT(message_of<fsdp::Error>([&] { text.read(100, bytes); }), HasSubstr("has shrunk from 1000 to"));
  EXPECT_THAT(message_of<fsdp::Error>([&] { text.read(2000, bytes); }),
              HasSubstr("has shrunk from 2097152 to 10 bytes"));
}

TEST(TextFiles, FingerprintTellsWhatHasChanged) {
  TemporaryFolder folder;
  folder.write("a", "abc\n");
  folder.write("b", "def\n");
  auto fingerprint = [&] { return TextFiles(folder.path()).fingerprint(); };
  const uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  const auto time = fs::last_write_time(folder / "b");
  fs::last_write_time(folder / "b", time + std::chrono::seconds(1));
  const uint64_t touched = fingerprint();
  EXPECT_NE(touched, first);
  fs::last_write_time(folder / "b", time);
  EXPECT_EQ(fingerprint(), first);
  folder.write("b", "dEf\n");
  fs::last_write_time(folder / "b", time);
  EXPECT_NE(fingerprint(), first);
  folder.write("b", "def\n");
  fs::last_write_time(folder / "b", time);
  fs::rename(folder / "b", folder / "c");
  EXPECT_NE(fingerprint(), first);
}

// Where neither the size nor the time has changed.
TEST(TextFiles, FingerprintTellsEachByteThatChanges) {
  TemporaryFolder folder;
  for (const size_t size : {size_t{57'000}, size_t{3'000'000}}) {  // read, and mapped
    const std::string text(size, 'a');
    const std::string path = folder.write("text", text);
    const auto time = fs::last_write_time(path);
    const uint64_t first = TextFiles(path).fingerprint();
    for (size_t place = 0; place < size; place += size / 13) {
      std::string changed = text;
      changed[place] = 'b';
      folder.write("text", changed);
      fs::last_write_time(path, time);
      EXPECT_NE(TextFiles(path).fingerprint(), first) << place << " of " << size;
    }
  }
}

TEST(TextFiles, InAnotherFormAreAnErrorWithTheRemedy) {
  TemporaryFolder folder;
  const std::string utf16 = folder.write("a.txt", std::string("\xff\xfe"
                                                              "a\0b\0\n\0",
                                                              8));
  EXPECT_EQ(error_of(utf16), "text '" + utf16 +
                                 "' is UTF-16, and texts are read as UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 '" +
                                 utf16 + "' > '" + utf16 + ".utf8.txt'");
  EXPECT_THAT(error_of(folder.write("b.txt.gz", "\x1f\x8b\x08 and more")),
              HasSubstr("is compressed with gzip, and texts are read as UTF-8. Convert it: gunzip -c '"));
  TemporaryFolder several;
  several.write("a.txt", "\xff\xfe\x9e\x8a");
  several.write("b.txt.zst", "\x28\xb5\x2f\xfd and more");
  several.write("c.txt", "third\n");
  const TextFiles text(several.path());
  EXPECT_EQ(read_all(text), "third\n");
  EXPECT_EQ(text.facts().binary, (Seen{2, "a.txt"}));
}

TEST(TextSplit, CutsNoLine) {
  TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "123456789\n";
  const TextFiles text(folder.write("a", bytes));
  const TextSplit at_a_line = split_text(text, 0.05), within = split_text(text, 0.055);
  EXPECT_EQ(at_a_line.training.size(), 950);
  EXPECT_EQ(at_a_line.validation.size(), 50);
  EXPECT_EQ(within.training.size(), 950);
  EXPECT_EQ(within.validation.first, 950);
  EXPECT_EQ(split_text(text, 0).validation.size(), 0);
}

TEST(TextSplit, FindsTheEndOfALongLine) {
  TemporaryFolder folder;
  const TextFiles text(folder.write("a", std::string(60'000, 'x') + "\n" + std::string(10'000, 'y')));
  EXPECT_EQ(split_text(text, 0.5).validation.first, 60'001);
  const TextFiles one_line(folder.write("b", std::string(60'000, 'x')));
  EXPECT_EQ(split_text(one_line, 0.5).validation.size(), 0);
}

TEST(ByteTokens, AreTheTextsBytes) {
  TemporaryFolder folder;
  // NUL comes after the first 8 KiB only: before, the file would be no text.
  const auto byte_at = [](size_t i) { return i < 8192 ? 1 + i * 7 % 255 : i * 7 % 256; };
  std::string bytes(40'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(byte_at(i));
  const Tokens tokens = byte_tokens(std::make_shared<TextFiles>(folder.write("a", bytes)));
  EXPECT_EQ(tokens->limit(), 256);
  const std::vector<int64_t> found = read_all(*tokens);
  ASSERT_EQ(found.size(), bytes.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], static_cast<int64_t>(byte_at(i)));
  EXPECT_EQ(tokens->where(9), "text '" + (folder / "a") + "', byte 9");
}

}  // namespace
}  // namespace data
