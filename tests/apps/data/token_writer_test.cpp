#include "data/token_writer.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "apps/data/children.h"
#include "apps/data/support.h"
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
              AllOf(HasSubstr("none/x.bin' cannot be created: No such file or directory")));
}

TEST(TokenWriter, WhatCannotBeWrittenIsSaidAndLeavesNothing) {
  TemporaryFolder folder;
  const auto write = [&]() -> int {
    const rlimit limit{100'000, 100'000};  // of a file's bytes
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const std::string message = message_of<fsdp::Error>([&] {
      TokenWriter writer(folder / "x.bin", TokenKind::kNanoGpt);
      writer.append(std::vector<int32_t>(1'000'000, 7));
    });
    return message.find("token file '" + (folder / "x.bin") + "' cannot be written: File too large") == 0 ? 0 : 2;
  };
  EXPECT_EQ(exit_code_of(write), 0);
  EXPECT_TRUE(is_empty(folder));
}

// A file system of 64 KiB, which this process alone sees; false where a process may not have one.
bool mount_small_disk(const std::string& folder) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, "size=64k") == 0;
}

TEST(TokenWriter, AFullDiskIsSaidAndLeavesNothing) {
  TemporaryFolder folder;
  enum : int { Good, NoDisk, Message, Leftover };
  const int code = exit_code_of([&]() -> int {
    if (!mount_small_disk(folder.path().string())) return NoDisk;
    const std::string message = message_of<fsdp::Error>([&] {
      TokenWriter writer(folder / "x.bin", TokenKind::kNanoGpt);
      writer.append(std::vector<int32_t>(1'000'000, 7));
    });
    if (message.find("x.bin' cannot be written: No space left on device") == std::string::npos) return Message;
    if (message.find("Free some space") == std::string::npos) return Message;
    return is_empty(folder) ? Good : Leftover;
  });
  if (code == NoDisk) GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_EQ(code, Good);
}

TEST(TokenWriter, WritesThroughNoLinkAtItsTemporaryName) {
  TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text");
  fs::create_symlink(precious, (folder / "x.bin") + ".partial-" + std::to_string(getpid()));
  TokenWriter writer(folder / "x.bin", TokenKind::kNanoGpt);
  writer.append(std::vector<int32_t>{1});
  writer.commit();
  EXPECT_EQ(read_bytes(precious), "text");
  EXPECT_EQ(read_bytes(folder / "x.bin"), bytes_of<uint16_t>({1}));
}

}  // namespace
}  // namespace data
