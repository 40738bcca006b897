#include "data/token_writer.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/data/support.h"
#include "data/pending_folder.h"
#include "data/token_file.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool is_empty(const TemporaryFolder& folder) { return fs::is_empty(folder.path()); }

TEST(TokenWriter, WritesTheBytesOfEachKind) {
  TemporaryFolder folder;
  const std::vector<int32_t> tokens = {0, 1, 65535};
  const std::vector<std::pair<TokenKind, std::string>> expected = {
      {TokenKind::kNanoGpt, bytes_of<uint16_t>({0, 1, 65535})},
      {TokenKind::kLlmcGpt2, header_of(20240520, 1, 3) + bytes_of<uint16_t>({0, 1, 65535})},
      {TokenKind::kLlmcLlama3, header_of(20240801, 7, 3) + bytes_of<uint32_t>({0, 1, 65535})}};
  for (const auto& [kind, bytes] : expected) {
    TokenWriter writer(folder / "x.bin", kind);
    writer.append(std::span(tokens).first(1));
    writer.append(std::span(tokens).subspan(1));
    EXPECT_EQ(writer.size(), 3);
    writer.commit();
    EXPECT_EQ(read_bytes(folder / "x.bin"), bytes) << format_of(kind).name;
    EXPECT_EQ(TokenFile(folder / "x.bin").kind(), kind);
  }
}

TEST(TokenWriter, WritesMoreThanItsBuffer) {
  TemporaryFolder folder;
  std::vector<int32_t> tokens(700'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 60'001);
  TokenWriter writer(folder / "x.bin", TokenKind::kLlmcGpt2);
  for (int i = 0; i < 3; ++i) writer.append(tokens);
  writer.commit();
  const TokenFile file(folder / "x.bin");
  ASSERT_EQ(file.size(), 2'100'000);
  const std::vector<int64_t> found = read_all(file);
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], tokens[i % tokens.size()]) << "token " << i;
}

TEST(TokenWriter, HasItsNameOnlyWhenItIsComplete) {
  TemporaryFolder folder;
  folder.write("x.bin", "old");
  {
    TokenWriter writer(folder / "x.bin", TokenKind::kNanoGpt);
    writer.append(std::vector<int32_t>(1'000'000, 7));
    EXPECT_EQ(read_bytes(folder / "x.bin"), "old");
  }
  EXPECT_EQ(read_bytes(folder / "x.bin"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(TokenWriter, RefusesATokenThatDoesNotFit) {
  TemporaryFolder folder;
  TokenWriter writer(folder / "x.bin", TokenKind::kNanoGpt);
  const std::vector<int32_t> large = {5, 65536}, negative = {-1};
  EXPECT_THAT(
      message_of<fsdp::Error>([&] { writer.append(large); }),
      HasSubstr("token 65536 does not fit into the kind nanogpt: expected 0 to 65535. Use the kind llmc-llama3."));
  EXPECT_THAT(message_of<fsdp::Error>([&] { writer.append(negative); }), HasSubstr("token -1 does not fit"));
}

TEST(TokenWriter, SaysWhereItCannotWrite) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of<fsdp::Error>([&] { TokenWriter writer(folder / "none/x.bin", TokenKind::kNanoGpt); }),
              AllOf(HasSubstr("none/x.bin' cannot be written: No such file or directory")));
}

// The temporary name is a link to a device that is always full.
TEST(TokenWriter, AFullDiskIsSaidAndLeavesNothing) {
  TemporaryFolder folder;
  const std::string temporary = (folder / "x.bin") + ".partial-" + std::to_string(getpid());
  {
    ASSERT_EQ(symlink("/dev/full", temporary.c_str()), 0);
    TokenWriter writer(folder / "x.bin", TokenKind::kNanoGpt);
    const std::vector<int32_t> tokens(1'000'000, 7);
    EXPECT_THAT(message_of<fsdp::Error>([&] { writer.append(tokens); }),
                AllOf(HasSubstr("x.bin' cannot be written: No space left on device"), HasSubstr("Free some space")));
  }
  EXPECT_TRUE(is_empty(folder));
}

TEST(PendingFolder, AppearsWhole) {
  TemporaryFolder folder;
  PendingFolder pending(folder / "out/");
  EXPECT_FALSE(fs::exists(folder / "out"));
  write_durably(pending.path() / "a", "abc");
  pending.commit();
  EXPECT_EQ(read_bytes(folder / "out/a"), "abc");
  EXPECT_FALSE(fs::exists(pending.path()));
}

TEST(PendingFolder, TakesThePlaceOfAnEmptyFolder) {
  TemporaryFolder folder;
  fs::create_directory(folder / "out");
  PendingFolder pending(folder / "out");
  write_durably(pending.path() / "a", "abc");
  pending.commit();
  EXPECT_EQ(read_bytes(folder / "out/a"), "abc");
}

TEST(PendingFolder, LeavesNothingWithoutCommit) {
  TemporaryFolder folder;
  {
    PendingFolder pending(folder / "deep/out");
    write_durably(pending.path() / "a", "abc");
  }
  EXPECT_TRUE(fs::is_empty(folder / "deep"));
}

TEST(PendingFolder, OverwritesNothing) {
  TemporaryFolder folder;
  folder.write("out/a", "old");
  folder.write("file", "old");
  for (const char* target : {"out", "file"}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { PendingFolder pending(folder / target); }),
                HasSubstr("is there already, and nothing is overwritten"));
  }
  PendingFolder pending(folder / "late");
  folder.write("late/a", "of somebody else");
  EXPECT_THAT(message_of<fsdp::Error>([&] { pending.commit(); }), HasSubstr("late' cannot be put in place"));
  EXPECT_EQ(read_bytes(folder / "late/a"), "of somebody else");
}

TEST(PendingFolder, SaysThatItCannotBeMade) {
  TemporaryFolder folder;
  folder.write("file", "x");
  EXPECT_THAT(message_of<fsdp::Error>([&] { PendingFolder pending(folder / "file/out"); }),
              HasSubstr("cannot be made: Not a directory"));
}

}  // namespace
}  // namespace data
