#include "data/batch.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/data/support.h"
#include "data/token_file.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

TEST(Batch, IsWindowsAndWhatFollows) {
  const CountingTokens tokens(100);
  const Batch batch = make_batch(tokens, {10, 0, 96}, 3, 100);
  const auto expected = torch::tensor({{10, 11, 12}, {0, 1, 2}, {96, 97, 98}}, torch::kInt64);
  EXPECT_TRUE(batch.tokens.equal(expected));
  EXPECT_TRUE(batch.targets.equal(expected + 1));
  EXPECT_TRUE(batch.tokens.is_contiguous() && batch.targets.is_contiguous());
}

TEST(Batch, OfOneToken) {
  const Batch batch = make_batch(CountingTokens(10), {4, 8}, 1, 10);
  EXPECT_TRUE(batch.tokens.equal(torch::tensor({{4}, {8}}, torch::kInt64)));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({{5}, {9}}, torch::kInt64)));
}

// To read beyond the end of a mapped file would kill the process.
TEST(Batch, NoticesThatAFileHasShrunk) {
  TemporaryFolder folder;
  const std::string path = folder.write("1.bin", std::string(20'000, 'x'));
  const Tokens files = open_token_files({path, folder.write("2.bin", std::string(20'000, 'y'))});
  make_batch(*files, {0, 9'000, 11'000}, 64, 65536);
  std::filesystem::resize_file(path, 4096);
  make_batch(*files, {11'000}, 64, 65536);
  EXPECT_THAT(message_of<fsdp::Error>([&] {
                make_batch(*files, {11'000, 9'000}, 64, 65536);
              }),
              HasSubstr("1.bin' has shrunk from 20000 to 4096 bytes"));
}

TEST(Batch, NamesATokenThatTheModelDoesNotHave) {
  TemporaryFolder folder;
  const TokenFile file(folder.write("x.bin", bytes_of<uint16_t>({1, 2, 3, 50257, 5, 6, 7, 60000})));
  const std::string name = "token file '" + (folder / "x.bin") + "', ";
  auto error_of = [&](std::vector<int64_t> starts) {
    return message_of<fsdp::Error>([&] { make_batch(file, starts, 3, 50257); });
  };
  EXPECT_EQ(error_of({0}),
            name + "token 3 is 50257, and the model has a vocabulary of 50257. Use the data's tokenizer, or set the " +
                "model's --vocabulary to it.");
  EXPECT_THAT(error_of({2}), HasSubstr(name + "token 3 is 50257"));
  EXPECT_THAT(error_of({4}), HasSubstr(name + "token 7 is 60000"));  // a target
  EXPECT_TRUE(make_batch(file, {4}, 2, 50257).targets.equal(torch::tensor({{6, 7}}, torch::kInt64)));
  EXPECT_EQ(make_batch(file, {2}, 3, 60001).tokens[0][1].item<int64_t>(), 50257);
}

}  // namespace
}  // namespace data
