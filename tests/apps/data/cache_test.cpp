// A cache that others write to as well: what is not its own is neither used nor removed.
#include "data/cache.h"

#include <fcntl.h>
#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <climits>

#include "apps/data/children.h"
#include "apps/tokenizers/sentences.h"
#include "data/cache_lock.h"
#include "support/message_of.h"
#include "support/no_locks.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CacheTest : public ::testing::Test {
 protected:
  fs::path tokens() {
    const TextFiles text(text_);
    return cached_token_folder(cache_, split_text(text, 0.1), *tokenizers::make_tokenizer("bytes"), 1, {});
  }
  std::string tokens_error() {
    return message_of<fsdp::Error>([&] { tokens(); });
  }
  TemporaryFolder folder_;
  std::string text_ = folder_.write("a.txt", some_text(100));
  fs::path cache_ = folder_ / "cache";
};

TEST_F(CacheTest, RemovesItsOwnLeftoversAndNothingElse) {
  const std::string key = "0123456789abcdef";
  const std::vector<std::string> own = {"tokens-" + key + ".partial-77/train.bin",
                                        "tokens-" + key + ".partial-77-2/train.bin",
                                        "sentencepiece-320-" + key + ".model.partial-77"},
                                 foreign = {"notes.partial-7",
                                            "my.partial-draft/thesis.txt",
                                            "tokens-0123.partial-77/train.bin",
                                            "tokens-" + key + "0.partial-77/train.bin",
                                            "tokens-" + key + ".partial-x/train.bin",
                                            "tokens-" + key + ".partial-78",
                                            "tokens-0123456789ABCDEF.partial-77/train.bin",
                                            "sentencepiece-x-" + key + ".model.partial-77",
                                            "sentencepiece-320-" + key + ".partial-77",
                                            "sentencepiece-320-" + key + ".model.partial-9/a",
                                            "old.tokens-" + key + ".partial-77/train.bin"};
  for (const auto& names : {own, foreign}) {
    for (const std::string& name : names) folder_.write("cache/" + name, "text");
  }
  folder_.write("precious/a", "text");
  fs::create_directory_symlink(folder_ / "precious", cache_ / ("tokens-" + key + ".partial-79"));
  { const CacheLock lock(cache_); }
  for (const std::string& name : own) EXPECT_FALSE(fs::exists((cache_ / name).parent_path() / "train.bin")) << name;
  EXPECT_FALSE(fs::exists(cache_ / own[2]));
  for (const std::string& name : foreign) EXPECT_EQ(read_bytes(cache_ / name), "text") << name;
  EXPECT_EQ(read_bytes(cache_ / ("tokens-" + key + ".partial-79") / "a"), "text");
}

TEST_F(CacheTest, TellsATextThatHasChangedByOneByte) {
  std::string text = some_text(1000);
  folder_.write("a.txt", text);
  const fs::path first = tokens();
  const auto time = fs::last_write_time(text_);
  text[text.size() / 2] ^= 1;
  folder_.write("a.txt", text);
  fs::last_write_time(text_, time);
  EXPECT_NE(tokens(), first);
}

TEST_F(CacheTest, ItsLockFollowsNoLink) {
  const std::string precious = folder_.write("precious", "text");
  fs::create_directory(cache_);
  fs::create_symlink(precious, cache_ / "lock");
  EXPECT_THAT(message_of<fsdp::Error>([&] { CacheLock lock(cache_); }),
              AllOf(HasSubstr("cache '" + cache_.string() + "' cannot be used"), HasSubstr("it is a symbolic link")));
  EXPECT_EQ(read_bytes(precious), "text");
}

TEST_F(CacheTest, OneProcessWaitsForTheOther) {
  int held[2];
  ASSERT_EQ(pipe(held), 0);
  const auto append = [&](const char* letter) {
    const int file = open((folder_ / "order").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const bool written = write(file, letter, 1) == 1;
    close(file);
    return written ? 0 : 1;
  };
  const pid_t first = forked([&] {
    const CacheLock lock(cache_);
    if (write(held[1], "x", 1) != 1) return 1;
    sleep(1);  // long enough for the other to come, or it proves less
    return append("1");
  });
  char byte;
  ASSERT_EQ(read(held[0], &byte, 1), 1);
  const pid_t second = forked([&] {
    const CacheLock lock(cache_);
    return append("2");
  });
  EXPECT_EQ(exit_code_of(first), 0);
  EXPECT_EQ(exit_code_of(second), 0);
  EXPECT_EQ(read_bytes(folder_ / "order"), "12");
  close(held[0]);
  close(held[1]);
}

// Where the file system has no locks, nobody gives back what a killed process held.
TEST_F(CacheTest, AHolderThatDiedIsNotWaitedForWithoutEnd) {
  enum : int { Good, NoFilter, Message };
  const pid_t dead = forked([] { return 0; });
  exit_code_of(dead);
  std::array<char, HOST_NAME_MAX + 1> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  const std::string holder = "process " + std::to_string(dead) + " on " + host.data();
  folder_.write("cache/lock", holder);
  const int code = exit_code_of([&]() -> int {
    if (!fsdp::testing::take_locks_away()) return NoFilter;
    const std::string message = message_of<fsdp::Error>([&] { CacheLock lock(cache_); });
    return message.find("is held by " + holder) != std::string::npos ? Good : Message;
  });
  if (code == NoFilter) GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_EQ(code, Good);
}

TEST_F(CacheTest, AnEntryThatIsNotAsItWasMadeIsAnErrorThatNamesIt) {
  const fs::path entry = tokens();
  EXPECT_EQ(tokens(), entry);
  const auto refused = "cache entry '" + entry.string() + "' cannot be used: ";
  fs::resize_file(entry / "train.bin", 10);
  EXPECT_THAT(tokens_error(), AllOf(HasSubstr(refused), HasSubstr("train.bin' has 10 bytes")));
  fs::remove(entry / "train.bin");
  EXPECT_THAT(tokens_error(), AllOf(HasSubstr(refused), HasSubstr("Remove it, and it is made anew")));
  fs::create_symlink(folder_.write("other", "text"), entry / "train.bin");
  EXPECT_THAT(tokens_error(), AllOf(HasSubstr(refused), HasSubstr("train.bin' is a symbolic link")));
  fs::remove_all(entry);
  fs::create_directory(entry);
  EXPECT_THAT(tokens_error(),
              AllOf(HasSubstr(refused), HasSubstr("files.json' cannot be read: No such file or directory")));
  fs::remove_all(entry);
  EXPECT_EQ(tokens(), entry);
  EXPECT_EQ(tokens_error(), "no error");
}

TEST_F(CacheTest, AnEntryThatIsALinkIsAnErrorThatNamesIt) {
  const fs::path entry = tokens();
  fs::rename(entry, folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", entry);
  EXPECT_THAT(tokens_error(), AllOf(HasSubstr(entry.string()), HasSubstr("it is no folder")));
  fs::remove(entry);
  fs::create_symlink(folder_ / "nowhere", entry);
  EXPECT_THAT(tokens_error(), AllOf(HasSubstr(entry.string()), HasSubstr("it is no folder")));
  fs::remove(entry);
  folder_.write(fs::path("cache") / entry.filename(), "a file");
  EXPECT_THAT(tokens_error(), AllOf(HasSubstr(entry.string()), HasSubstr("it is no folder")));
}

TEST_F(CacheTest, AModelThatIsNotAsItWasMadeIsAnErrorThatNamesIt) {
  if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  const TextFiles text(folder_.write("a.txt", some_text(2000)));
  const auto train = [&] { return cached_tokenizer(cache_, all_of(text), 320); };
  const fs::path model = train()->name();
  const std::string bytes = read_bytes(model), refused = "cache entry '" + model.string() + "' cannot be used: ";
  const auto error = [&] { return message_of<fsdp::Error>([&] { train(); }); };
  fs::resize_file(model, bytes.size() / 2);
  EXPECT_THAT(error(), AllOf(HasSubstr(refused), HasSubstr("or is damaged")));
  fs::resize_file(model, 0);
  EXPECT_THAT(error(), AllOf(HasSubstr(refused), HasSubstr("is empty")));
  const std::string larger = tokenizers::train_sentencepiece(lines_of(some_text(2000)), 400);
  std::ofstream(model, std::ios::binary) << larger;
  EXPECT_THAT(error(), AllOf(HasSubstr(refused), HasSubstr("it has 400 tokens")));
  fs::remove(model);
  fs::create_symlink(folder_.write("other.model", bytes), model);
  EXPECT_THAT(error(), AllOf(HasSubstr(refused), HasSubstr("it is no regular file")));
  fs::remove(model);
  EXPECT_EQ(read_bytes(train()->name()), bytes);
}

}  // namespace
}  // namespace data
