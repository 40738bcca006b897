#include "fsdp-train/prepare.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "apps/columns.h"
#include "apps/data/support.h"
#include "apps/tokenizers/sentences.h"
#include "data/corpus.h"
#include "data/token_file.h"
#include "fsdp-train/prepare_bar.h"
#include "support/message_of.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class PrepareTest : public ::testing::Test {
 protected:
  Preparation options() const { return {.text = text_, .out = folder_ / "out"}; }

  // Training and validation of the folder, as text again.
  std::string text_of(const std::string& folder) {
    const data::Corpus corpus = data::open_corpus({.data = folder});
    std::string text;
    for (const data::Tokens& part : {corpus.training, corpus.validation}) {
      const std::vector<int64_t> wide = data::read_all(*part);
      text += corpus.tokenizer->decode(std::vector<int32_t>(wide.begin(), wide.end()));
    }
    return text;
  }

  TemporaryFolder folder_;
  std::string bytes_ = some_text(3000);
  std::string text_ = folder_.write("text.txt", bytes_);
};

TEST_F(PrepareTest, SaysThatATextInOneLineHasNothingHeldBack) {
  Preparation given = options();
  given.text = folder_.write("line.txt", std::string(1000, 'a'));
  EXPECT_THAT(prepare(given, {}).notes,
              ElementsAre("held back nothing for validation: no line ends in the last 5 % of the text; a run holds "
                          "back the last tokens"));
  EXPECT_EQ(data::open_corpus({.data = given.out}).validation->size(), 50);
}

TEST_F(PrepareTest, WritesWhatATrainingReads) {
  for (data::TokenKind kind : data::kTokenKinds) {
    Preparation given = options();
    given.kind = data::format_of(kind).name;
    given.out = folder_ / given.kind;
    ASSERT_THAT(prepare_problems(given), IsEmpty());
    const Prepared prepared = prepare(given, {});
    EXPECT_EQ(prepared.bytes, static_cast<int64_t>(bytes_.size()));
    EXPECT_EQ(prepared.tokens.training + prepared.tokens.validation, prepared.bytes);
    EXPECT_GT(prepared.tokens.validation, prepared.bytes / 25);
    EXPECT_EQ(data::TokenFile(given.out + "/train.bin").kind(), kind);
    EXPECT_EQ(text_of(given.out), bytes_);
  }
}

TEST_F(PrepareTest, TrainsATokenizerAndKeepsItBesideTheTokens) {
  if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  ASSERT_EQ(setenv("FSDP_CACHE", (folder_ / "cache").c_str(), 1), 0);
  Preparation given = options();
  given.trained_vocabulary = 350;
  given.threads = 3;
  ASSERT_THAT(prepare_problems(given), IsEmpty());
  const Prepared prepared = prepare(given, {});
  EXPECT_EQ(prepared.vocabulary, 350);
  EXPECT_LT(prepared.tokens.training, prepared.bytes / 2);
  EXPECT_TRUE(fs::exists(folder_ / "out/tokenizer.model"));
  EXPECT_EQ(text_of(given.out), bytes_);
}

TEST_F(PrepareTest, AValidationTextOfItsOwn) {
  Preparation given = options();
  given.validation_text = folder_.write("val.txt", "to validate with\n");
  prepare(given, {});
  EXPECT_EQ(text_of(given.out), bytes_ + "to validate with\n");
  EXPECT_EQ(data::TokenFile(given.out + "/val.bin").size(), 17);
}

TEST_F(PrepareTest, NothingIsHeldBackWhenToldSo) {
  Preparation given = options();
  given.validation_fraction = 0;
  prepare(given, {});
  EXPECT_FALSE(fs::exists(folder_ / "out/val.bin"));
  EXPECT_EQ(data::TokenFile(given.out + "/train.bin").size(), static_cast<int64_t>(bytes_.size()));
}

TEST_F(PrepareTest, AllProblemsAreFoundAtOnce) {
  const Preparation wrong = {.text = folder_ / "none",
                             .validation_text = folder_ / "nothing",
                             .validation_fraction = 1.5,
                             .out = folder_.path().string(),
                             .tokenizer = "byte",
                             .kind = "gpt2",
                             .threads = 0};
  EXPECT_THAT(
      prepare_problems(wrong),
      ElementsAre(HasSubstr("none' does not exist"), HasSubstr("nothing' does not exist"),
                  HasSubstr("is there already, and nothing is overwritten"),
                  HasSubstr("'gpt2' is no kind of token file; it must be one of nanogpt, llmc-gpt2, llmc-llama3."),
                  HasSubstr("tokenizer 'byte' does not exist"), HasSubstr("is 1.5; it must be at least 0 and below 1"),
                  HasSubstr("--threads is 0; it must be 1 to 1024")));
  EXPECT_THAT(prepare_problems({}), ElementsAre(HasSubstr("--text is missing"), HasSubstr("--output is missing")));
  EXPECT_THAT(prepare_problems({.text = text_, .out = folder_ / "out", .trained_vocabulary = -1}),
              ElementsAre(HasSubstr("the vocabulary to train is -1; it must be 0 or above")));
}

// The limit makes a write fail as a full disk does.
TEST_F(PrepareTest, AFullDiskLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of<fsdp::Error>([&] { prepare(options(), {}); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("train.bin' cannot be written: File too large"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);  // the text
}

TEST_F(PrepareTest, LeavesNothingWhenItIsEnded) {
  const auto stop = [](int64_t, int64_t) { throw fsdp::Error("stopped"); };
  EXPECT_EQ(message_of<fsdp::Error>([&] { prepare(options(), stop); }), "stopped");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(PrepareTest, ProgressRunsToTheEnd) {
  std::vector<int64_t> done;
  Preparation given = options();
  given.validation_fraction = 0.5;
  prepare(given, [&](int64_t now, int64_t total) {
    EXPECT_EQ(total, static_cast<int64_t>(bytes_.size()));
    done.push_back(now);
  });
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), static_cast<int64_t>(bytes_.size()));
}

TEST_F(PrepareTest, SaysWhatItDidInOneLine) {
  testing::internal::CaptureStdout();
  run_prepare(options());
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1);
  EXPECT_FALSE(has_control_characters(output));
  EXPECT_THAT(output, HasSubstr("to validate with (the last 5 %), vocabulary 256, kind nanogpt; "));
}

TEST_F(PrepareTest, SaysWhatItSkipped) {
  folder_.write("texts/a.txt", bytes_);
  folder_.write("texts/.git/config", "x");
  folder_.write("texts/latin.txt", "caf\xe9\r\n");
  folder_.write("texts/model.bin", std::string(10, '\0'));
  Preparation given = options();
  given.text = folder_ / "texts";
  given.validation_text = text_;
  testing::internal::CaptureStdout();
  run_prepare(given);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              StartsWith("skipped 1 hidden file or folder, .git\nskipped 1 file that is no text, model.bin\n"
                         "kept CR LF at the ends of lines, in 1 file, latin.txt\n"
                         "kept bytes that are no UTF-8, in 1 file, latin.txt, byte 3\n" +
                         given.out + ": "));
}

const Terminal kUtf8{.utf8 = true};

TEST(PrepareBar, ShowsHowFarItIs) {
  EXPECT_EQ(prepare_bar(63, 100, 7, 60, kUtf8), " 63%  ████████████░░░░░░░░  63 B of 100 B  9 B/s  0:04 left");
  EXPECT_EQ(prepare_bar(0, 100, 0, 44, kUtf8), "  0%  ░░░░░  0 B of 100 B  0 B/s  0:00 left");
  EXPECT_EQ(prepare_bar(0, 100, 0, 43, kUtf8), "  0%  ░░░░░░░░░░░░░░░░░░  0 B/s  0:00 left");
}

TEST(PrepareBar, FitsAnyWidth) {
  for (int width = 1; width < 220; ++width) {
    for (const Terminal& terminal : {kUtf8, Terminal{.colour = true}}) {
      const std::string line = prepare_bar(123'456'789, 987'654'321, 100, width, terminal);
      EXPECT_LT(columns(line), std::max(width, 2)) << line;
    }
  }
}

}  // namespace
}  // namespace trainer
