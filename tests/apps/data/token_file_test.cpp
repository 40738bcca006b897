#include "data/token_file.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/data/support.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

using fsdp::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kGpt2 = 20240520, kLlama3 = 20240801;

class TokenFileTest : public ::testing::Test {
 protected:
  std::string error_of(const std::string& bytes) {
    const std::string path = folder_.write("x.bin", bytes);
    return message_of<fsdp::Error>([&] { TokenFile file(path); });
  }
  TemporaryFolder folder_;
};

TEST_F(TokenFileTest, ReadsNanoGpt) {
  const TokenFile file(folder_.write("x.bin", bytes_of<uint16_t>({0, 7, 50256, 65535})));
  EXPECT_EQ(file.kind(), TokenKind::kNanoGpt);
  EXPECT_EQ(file.limit(), 65536);
  EXPECT_THAT(read_all(file), ElementsAre(0, 7, 50256, 65535));
  std::vector<int64_t> two(2);
  file.read(1, two);
  EXPECT_THAT(two, ElementsAre(7, 50256));
  EXPECT_EQ(file.where(2), "token file '" + (folder_ / "x.bin") + "', token 2");
}

TEST_F(TokenFileTest, ReadsLlmcGpt2) {
  const TokenFile file(folder_.write("x.bin", header_of(kGpt2, 1, 3) + bytes_of<uint16_t>({5, 50256, 65535})));
  EXPECT_EQ(file.kind(), TokenKind::kLlmcGpt2);
  EXPECT_THAT(read_all(file), ElementsAre(5, 50256, 65535));
}

TEST_F(TokenFileTest, ReadsLlmcLlama3) {
  const TokenFile file(folder_.write("x.bin", header_of(kLlama3, 7, 3) + bytes_of<uint32_t>({5, 128001, 4294967295})));
  EXPECT_EQ(file.kind(), TokenKind::kLlmcLlama3);
  EXPECT_EQ(file.limit(), int64_t{1} << 32);
  EXPECT_THAT(read_all(file), ElementsAre(5, 128001, 4294967295));
}

TEST_F(TokenFileTest, RefusesAnOddSize) {
  EXPECT_THAT(error_of("abc"), HasSubstr("(nanogpt) has 3 bytes, which is no multiple of a token's 2"));
}

TEST_F(TokenFileTest, RefusesAnEmptyFile) { EXPECT_THAT(error_of(""), HasSubstr("is empty")); }

TEST_F(TokenFileTest, RefusesACutHeader) {
  for (size_t length : {4, 5, 8, 12, 1023}) {
    EXPECT_THAT(error_of(header_of(kGpt2, 1, 3).substr(0, length)),
                HasSubstr("has " + std::to_string(length) + " bytes, and its header alone has 1024"));
  }
}

TEST_F(TokenFileTest, RefusesAnotherVersion) {
  EXPECT_THAT(error_of(header_of(kGpt2, 2, 1) + bytes_of<uint16_t>({5})), HasSubstr("is of version 2; expected 1"));
  EXPECT_THAT(error_of(header_of(kLlama3, 1, 1) + bytes_of<uint32_t>({5})), HasSubstr("is of version 1; expected 7"));
}

TEST_F(TokenFileTest, RefusesAnotherNumberOfTokens) {
  for (int32_t told : {0, 2, 4, -1, 2147483647}) {
    EXPECT_THAT(error_of(header_of(kGpt2, 1, told) + bytes_of<uint16_t>({5, 6, 7})),
                HasSubstr("has 1030 bytes, and its header tells of " + std::to_string(told) + " tokens"));
  }
  EXPECT_THAT(error_of(header_of(kLlama3, 7, 2) + bytes_of<uint32_t>({5, 6}).substr(0, 7)),
              HasSubstr("has 1031 bytes, and its header tells of 2 tokens, which would make 1032"));
}

TEST_F(TokenFileTest, RefusesAHeaderWithoutTokens) {
  EXPECT_THAT(error_of(header_of(kGpt2, 1, 0)), HasSubstr("holds no tokens"));
}

TEST_F(TokenFileTest, RefusesOtherFilesOfLlmc) {
  EXPECT_THAT(
      error_of(header_of(20240326, 3, 1024) + std::string(1000, 'x')),
      HasSubstr("begins with the number 20240326, as files of llm.c do, but not those with tokens: expected 20240520 "
                "(GPT-2) or 20240801 (Llama 3)"));
}

// 20240326 as two tokens of 16 bits, in a text that goes on as texts do.
TEST_F(TokenFileTest, TokensThatLookLikeANumberOfLlmcAreTokens) {
  std::vector<uint16_t> tokens(1000, 17);
  tokens[0] = static_cast<uint16_t>(20240326 & 0xffff);
  tokens[1] = static_cast<uint16_t>(20240326 >> 16);
  EXPECT_EQ(TokenFile(folder_.write("x.bin", bytes_of(tokens))).size(), 1000);
}

// Opened without being read: it would take minutes, and memory that is not there.
TEST_F(TokenFileTest, OpensAHugeFile) {
  const int64_t tokens = int64_t{1} << 32;
  const std::string path = folder_.write("huge.bin", bytes_of<uint16_t>({1, 2, 3}));
  ASSERT_EQ(truncate(path.c_str(), 2 * tokens), 0);
  const TokenFile file(path);
  EXPECT_EQ(file.size(), tokens);
  std::vector<int64_t> few(3);
  file.read(0, few);
  EXPECT_THAT(few, ElementsAre(1, 2, 3));
  file.read(tokens - 3, few);
  EXPECT_THAT(few, ElementsAre(0, 0, 0));
}

TEST_F(TokenFileTest, NoticesThatTheFileHasShrunk) {
  const std::string path = folder_.write("x.bin", std::string(20'000, 'x'));
  const TokenFile file(path);
  ASSERT_EQ(truncate(path.c_str(), 4096), 0);
  std::vector<int64_t> tokens(10);
  EXPECT_THAT(message_of<fsdp::Error>([&] { file.read(9000, tokens); }),
              HasSubstr("has shrunk from 20000 to 4096 bytes"));
}

std::vector<std::string> names(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> result;
  for (const auto& file : files) result.push_back(file.filename().string());
  return result;
}

TEST_F(TokenFileTest, FindsTheShardsOfAFolderInOrder) {
  for (const char* name :
       {"fineweb_train_000002.bin", "fineweb_train_000001.bin", "fineweb_val_000000.bin", "notes.txt"}) {
    folder_.write(name, "ab");
  }
  std::filesystem::create_directory(folder_ / "folder.bin");
  const std::string folder = folder_.path().string();
  ASSERT_TRUE(names_token_files(folder));
  EXPECT_THAT(names(find_token_files(folder).training),
              ElementsAre("fineweb_train_000001.bin", "fineweb_train_000002.bin"));
  EXPECT_THAT(names(find_token_files(folder).validation), ElementsAre("fineweb_val_000000.bin"));
  const std::string pattern = folder_ / "fineweb_train_*.bin";
  ASSERT_TRUE(names_token_files(pattern));
  EXPECT_THAT(names(find_token_files(pattern).training),
              ElementsAre("fineweb_train_000001.bin", "fineweb_train_000002.bin"));
  EXPECT_THAT(find_token_files(pattern).validation, IsEmpty());
  const std::string one = folder_ / "fineweb_val_000000.bin";
  ASSERT_TRUE(names_token_files(one));
  EXPECT_THAT(names(find_token_files(one).training), ElementsAre("fineweb_val_000000.bin"));
}

TEST_F(TokenFileTest, AFolderThatMissesAFileIsNotReadWithoutIt) {
  folder_.write("x_train_1.bin", "ab");
  std::filesystem::create_symlink("x_train_2.bin", folder_ / "x_train_2.bin");
  const std::string folder = folder_.path().string();
  ASSERT_TRUE(names_token_files(folder));
  EXPECT_THAT(message_of<fsdp::Error>([&] { open_token_files(find_token_files(folder).training); }),
              HasSubstr("x_train_2.bin' cannot be read: Too many levels of symbolic links"));
}

TEST_F(TokenFileTest, RefusesAHeaderWithItsBytesTheOtherWayRound) {
  const auto swapped = [](int32_t number) { return static_cast<int32_t>(__builtin_bswap32(number)); };
  EXPECT_THAT(error_of(header_of(swapped(kGpt2), swapped(1), swapped(3)) + "abcdef"),
              HasSubstr("(llmc-gpt2) has its numbers' bytes the other way round"));
  EXPECT_THAT(error_of(header_of(swapped(kLlama3), swapped(7), swapped(1)) + "abcd"),
              HasSubstr("(llmc-llama3) has its numbers' bytes the other way round"));
}

// Whatever the first numbers are, what is read lies within the file.
TEST_F(TokenFileTest, HostileHeadersAreErrors) {
  for (int32_t magic : {kGpt2, kLlama3}) {
    const int32_t version = magic == kGpt2 ? 1 : 7;
    for (int32_t told : {-2147483647 - 1, -1, 0, 3, 1'073'741'824, 2147483647}) {
      for (size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{4096}}) {
        EXPECT_THAT(error_of(header_of(magic, version, told) + std::string(bytes, 'x')), HasSubstr("x.bin'")) << told;
      }
    }
  }
}

TEST_F(TokenFileTest, TextIsNoTokenFile) {
  folder_.write("a.txt", "abc");
  folder_.write("program.bin", "ab");
  EXPECT_FALSE(names_token_files(folder_.path().string()));
  EXPECT_FALSE(names_token_files(folder_ / "a.txt"));
  EXPECT_FALSE(names_token_files(folder_ / "none"));
  folder_.write("tokenizer.json", "{}");
  EXPECT_TRUE(names_token_files(folder_.path().string()));
}

TEST_F(TokenFileTest, SaysThatThereIsNothingToTrainOn) {
  folder_.write("a_val_1.bin", "ab");
  folder_.write("a_val_2.bin", "ab");
  EXPECT_THAT(message_of<fsdp::Error>([&] { find_token_files(folder_.path().string()); }),
              HasSubstr("stands for no token file to train on (2 for validation)"));
  EXPECT_THAT(message_of<fsdp::Error>([&] { find_token_files(folder_ / "none_*.bin"); }),
              HasSubstr("none_*.bin' stands for no token file to train on"));
}

TEST_F(TokenFileTest, ShardsAreOneSequence) {
  const Tokens tokens = open_token_files(
      {folder_.write("1.bin", bytes_of<uint16_t>({1, 2, 3})), folder_.write("2.bin", bytes_of<uint16_t>({4})),
       folder_.write("3.bin", header_of(kLlama3, 7, 2) + bytes_of<uint32_t>({128000, 6}))});
  EXPECT_EQ(tokens->size(), 6);
  EXPECT_EQ(tokens->limit(), int64_t{1} << 32);
  EXPECT_THAT(read_all(*tokens), ElementsAre(1, 2, 3, 4, 128000, 6));
  std::vector<int64_t> middle(3);
  tokens->read(2, middle);
  EXPECT_THAT(middle, ElementsAre(3, 4, 128000));
  EXPECT_EQ(tokens->where(4), "token file '" + (folder_ / "3.bin") + "', token 0");
}

}  // namespace
}  // namespace data
