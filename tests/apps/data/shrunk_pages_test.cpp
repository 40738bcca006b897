// Files that are cut while they are read: an error that names them, in each process that reads, and no signal.
#include "data/shrunk_pages.h"

#include <fcntl.h>
#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "apps/data/children.h"
#include "apps/data/support.h"
#include "data/byte_tokens.h"
#include "data/token_file.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

constexpr size_t kBytes = size_t{4} << 20;

// Cuts a file when it is read, as somebody might between a look at the next file and its reading.
class CuttingTokens final : public TokenSource {
 public:
  CuttingTokens(std::string path, int64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
  int64_t size() const override { return 100; }
  int64_t limit() const override { return 1; }
  void read(int64_t, std::span<int64_t>) const override { EXPECT_EQ(truncate(path_.c_str(), bytes_), 0); }
  std::string where(int64_t) const override { return "cutting"; }

 private:
  std::string path_;
  int64_t bytes_;
};

TEST(ShrunkPages, ATokenFileCutInTheMidstOfABatchIsAnError) {
  for (const int64_t left : {0, 1, 5000, 1'000'000}) {
    TemporaryFolder folder;
    const std::string path = folder.write("x.bin", std::string(kBytes, '\1'));
    const Tokens tokens = joined({std::make_shared<CuttingTokens>(path, left), std::make_shared<TokenFile>(path)});
    std::vector<int64_t> first(50), second(1000), last(1000);
    const std::vector<Reading> batch = {{0, first}, {100, second}, {tokens->size() - 1000, last}};
    EXPECT_THAT(message_of<fsdp::Error>([&] { tokens->read_several(batch); }),
                HasSubstr("x.bin' has shrunk from 4194304 to " + std::to_string(left) + " bytes"));
  }
}

TEST(ShrunkPages, ATextCutWhileItIsReadIsAnError) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.txt", std::string(kBytes, 'a'));
  const Tokens text = byte_tokens(std::make_shared<TextFiles>(path));
  const Tokens tokens = joined({std::make_shared<CuttingTokens>(path, 5000), text});
  std::vector<int64_t> all(static_cast<size_t>(tokens->size()));
  EXPECT_THAT(message_of<fsdp::Error>([&] { tokens->read(0, all); }), HasSubstr("a.txt' has shrunk from 4194304 to"));
}

// Reads windows until it is told that the file has shrunk; never gets a token that was not in it.
int read_until_cut(const TokenSource& tokens, unsigned seed, int begun) {
  enum : int { Good, WrongToken, WrongMessage };
  std::minstd_rand random(seed);
  std::vector<std::vector<int64_t>> windows(16, std::vector<int64_t>(512));
  for (int64_t round = 0;; ++round) {
    std::vector<Reading> batch;
    for (auto& window : windows) batch.push_back({static_cast<int64_t>(random() % (tokens.size() - 512)), window});
    const std::string message = message_of<fsdp::Error>([&] { tokens.read_several(batch); });
    if (message != "no error") return message.find("' has shrunk from ") != std::string::npos ? Good : WrongMessage;
    for (const auto& window : windows) {
      for (int64_t token : window) {
        if (token == 0) return WrongToken;
      }
    }
    if (round == 10) (void)!write(begun, "x", 1);
  }
}

// Ranks that were forked after the data was opened, each in the midst of its batches.
void cut_under_ranks(const std::string& path, const Tokens& tokens, const std::function<void()>& cut) {
  int begun[2];
  ASSERT_EQ(pipe(begun), 0);
  std::vector<pid_t> ranks;
  for (unsigned rank = 1; rank <= 3; ++rank) {
    ranks.push_back(forked([&] { return read_until_cut(*tokens, rank, begun[1]); }));
  }
  char byte;
  for (size_t rank = 0; rank < ranks.size(); ++rank) ASSERT_EQ(read(begun[0], &byte, 1), 1);
  cut();
  for (const pid_t rank : ranks) EXPECT_EQ(exit_code_of(rank), 0) << path;
  close(begun[0]);
  close(begun[1]);
}

TEST(ShrunkPages, ForkedRanksAreToldThatATokenFileWasCut) {
  TemporaryFolder folder;
  const std::string path = folder.write("x.bin", std::string(kBytes, '\1'));
  cut_under_ranks(path, std::make_shared<TokenFile>(path), [&] { ASSERT_EQ(truncate(path.c_str(), 100'000), 0); });
}

TEST(ShrunkPages, ForkedRanksAreToldThatATextWasCut) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.txt", std::string(kBytes, 'a'));
  cut_under_ranks(path, byte_tokens(std::make_shared<TextFiles>(path)),
                  [&] { ASSERT_EQ(truncate(path.c_str(), 100'000), 0); });
}

// Without its name, only the pages themselves tell.
TEST(ShrunkPages, ForkedRanksAreToldThatAFileWithoutANameWasCut) {
  TemporaryFolder folder;
  const std::string path = folder.write("x.bin", std::string(kBytes, '\1'));
  const Tokens tokens = std::make_shared<TokenFile>(path);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(unlink(path.c_str()), 0);
  cut_under_ranks(path, tokens, [&] { ASSERT_EQ(ftruncate(descriptor, 102'400), 0); });
  close(descriptor);
}

TEST(ShrunkPages, MappingsComeAndGo) {
  TemporaryFolder folder;
  for (int round = 0; round < 100; ++round) {
    const std::string cut = folder.write("cut", std::string(100'000, 'x')), whole = folder.write("whole", "whole");
    const MappedFile first(cut, "text"), second(whole, "text");
    ASSERT_EQ(truncate(cut.c_str(), 0), 0);
    EXPECT_EQ(first.bytes()[99'999], '\0');
    EXPECT_THAT(message_of<fsdp::Error>([&] { first.check(); }), HasSubstr("cut' has shrunk"));
    second.check();
    EXPECT_EQ(second.bytes(), "whole");
  }
}

// A page of a file that is no longer there, mapped by others.
void read_foreign_page(const TemporaryFolder& folder) {
  const std::string path = folder.write("foreign", std::string(10'000, 'x'));
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto* bytes = static_cast<const volatile char*>(mmap(nullptr, 10'000, PROT_READ, MAP_SHARED, descriptor, 0));
  if (truncate(path.c_str(), 0) == 0) (void)bytes[0];
}

TEST(ShrunkPagesDeathTest, AnotherBusErrorKillsAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto use_both = [] {
    TemporaryFolder folder;
    const MappedFile ours(folder.write("ours", "abc"), "text");
    read_foreign_page(folder);
    std::_Exit(0);
  };
  EXPECT_DEATH(use_both(), "");
}

TEST(ShrunkPagesDeathTest, AnotherBusErrorGoesToTheHandlerBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto use_both = [] {
    std::signal(SIGBUS, [](int) { std::_Exit(7); });
    TemporaryFolder folder;
    const MappedFile ours(folder.write("ours", "abc"), "text");
    read_foreign_page(folder);
    std::_Exit(0);
  };
  EXPECT_EXIT(use_both(), ::testing::ExitedWithCode(7), "");
}

TEST(ShrunkPagesDeathTest, ABusErrorThatWasSentKillsAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto send = [] {
    TemporaryFolder folder;
    const MappedFile ours(folder.write("ours", "abc"), "text");
    kill(getpid(), SIGBUS);
    std::_Exit(0);
  };
  EXPECT_DEATH(send(), "");
}

}  // namespace
}  // namespace data
