#include "data/corpus.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/data/support.h"
#include "apps/tokenizers/sentences.h"
#include "data/cache.h"
#include "data/data_notes.h"
#include "support/message_of.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CorpusTest : public ::testing::Test {
 protected:
  CorpusOptions options(const std::string& data) const {
    return {.data = data, .cache = folder_ / "cache", .context = 4};
  }
  std::string error_of(const CorpusOptions& given) {
    return message_of<fsdp::Error>([&] { open_corpus(given); });
  }
  TemporaryFolder folder_;
};

TEST_F(CorpusTest, ATextIsItsBytes) {
  const std::string text = some_text(100);
  const Corpus corpus = open_corpus(options(folder_.write("a.txt", text)));
  const auto size = static_cast<int64_t>(text.size());
  EXPECT_EQ(corpus.training->size(), size - size / 20);
  ASSERT_NE(corpus.validation, nullptr);
  EXPECT_EQ(corpus.validation->size(), size / 20);
  EXPECT_EQ(read_all(*corpus.training).front(), static_cast<unsigned char>(text.front()));
  EXPECT_EQ(corpus.tokenizer->name(), "bytes");
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(CorpusTest, AValidationTextOfItsOwn) {
  CorpusOptions given = options(folder_.write("a.txt", "0123456789"));
  given.validation = folder_.write("b.txt", "abcdefgh");
  const Corpus corpus = open_corpus(given);
  EXPECT_EQ(corpus.training->size(), 10);
  EXPECT_EQ(corpus.validation->size(), 8);
  given.validation = folder_.write("c.txt", "abcd");
  EXPECT_THAT(error_of(given), HasSubstr("c.txt' to validate with has 4 tokens, and one window of context 4 needs 5"));
}

TEST_F(CorpusTest, TokenFilesAreReadAsTheyAre) {
  const std::vector<uint16_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::string file = folder_.write("tokens/x_train.bin", bytes_of(tokens));
  Corpus corpus = open_corpus(options(file));
  EXPECT_EQ(corpus.training->size(), 12);
  EXPECT_EQ(corpus.validation, nullptr);  // too few to hold a window back
  EXPECT_EQ(corpus.tokenizer, nullptr);

  folder_.write("tokens/x_val.bin", bytes_of<uint16_t>({20, 21, 22, 23, 24}));
  folder_.write("tokens/tokenizer.json", tokenizers::make_tokenizer("bytes")->file().bytes);
  corpus = open_corpus(options(folder_ / "tokens"));
  EXPECT_EQ(corpus.training->size(), 12);
  EXPECT_THAT(read_all(*corpus.validation), ElementsAre(20, 21, 22, 23, 24));
  EXPECT_EQ(corpus.tokenizer->name(), "bytes");
}

TEST_F(CorpusTest, ACopyOfATokenFolderThatWasBrokenOffIsFound) {
  const TextFiles text(folder_.write("a.txt", some_text(100)));
  write_token_folder({.path = folder_ / "tokens"}, split_text(text, 0.1), *tokenizers::make_tokenizer("bytes"), {});
  open_corpus(options(folder_ / "tokens"));
  fs::resize_file(folder_ / "tokens/train.bin", 1000);
  EXPECT_THAT(error_of(options(folder_ / "tokens")),
              AllOf(HasSubstr("tokens/train.bin' has 1000 bytes, and files.json beside it tells of ")));
  fs::remove(folder_ / "tokens/train.bin");
  fs::copy(folder_ / "tokens/val.bin", folder_ / "tokens/other_train.bin");
  EXPECT_THAT(error_of(options(folder_ / "tokens")),
              HasSubstr("tokens/train.bin' cannot be read: No such file or directory"));
}

TEST_F(CorpusTest, TellsWhatIsNoTextInItsFolder) {
  folder_.write("text/a.txt", "0123456789");
  fs::create_symlink("loop", folder_ / "text/loop");
  CorpusOptions given = options(folder_ / "text");
  EXPECT_THAT(open_corpus(given).passed_over, ElementsAre(HasSubstr("text/loop' cannot be read: Too many levels")));
  given.validation = given.data;
  EXPECT_EQ(open_corpus(given).passed_over.size(), 2u);
}

TEST_F(CorpusTest, SaysWhatWasSkippedAndAssumed) {
  folder_.write("text/a.txt", "0123456789\r\n");
  folder_.write("text/.hidden", "0123456789");
  CorpusOptions given = options(folder_ / "text");
  EXPECT_THAT(data_notes(open_corpus(given)), ElementsAre("skipped 1 hidden file or folder, .hidden",
                                                          "kept CR LF at the ends of lines, in 1 file, a.txt",
                                                          "held back nothing for validation: the data is too short"));
  given.validation_fraction = 0.5;
  EXPECT_EQ(data_notes(open_corpus(given)).back(), "held back the last 50 % for validation");
  given.validation_fraction = 0;
  EXPECT_EQ(data_notes(open_corpus(given)).size(), 2u);
  given = options(folder_.write("b.txt", some_text(10)));
  given.validation = folder_.write("c.txt", "0123456789");
  EXPECT_EQ(data_notes(open_corpus(given)).size(), 0u);
}

TEST_F(CorpusTest, SaysHowItReadsTokensWithoutAHeader) {
  CorpusOptions given = options(folder_.write("x_train.bin", bytes_of(std::vector<uint16_t>(100, 7))));
  EXPECT_THAT(data_notes(open_corpus(given)),
              ElementsAre("read x_train.bin as uint16, as nanoGPT writes tokens: it has no header",
                          "held back the last 5 % for validation"));
  given = options(folder_.write("y_train.bin", header_of(20240520, 1, 100) + std::string(200, 'x')));
  EXPECT_EQ(data_notes(open_corpus(given)).size(), 1u);
  const TextFiles text(folder_.write("a.txt", some_text(50)));
  write_token_folder({.path = folder_ / "tokens"}, split_text(text, 0.1), *tokenizers::make_tokenizer("bytes"), {});
  EXPECT_EQ(data_notes(open_corpus(options(folder_ / "tokens"))).size(), 0u);  // files.json lies beside them
}

TEST_F(CorpusTest, KnowsOfTokensWhetherTheirTextWasUtf8) {
  const TextFiles text(folder_.write("a.txt", some_text(50) + "caf\xe9\n" + some_text(10)));
  write_token_folder({.path = folder_ / "tokens"}, split_text(text, 0.1), *tokenizers::make_tokenizer("bytes"), {});
  const Corpus corpus = open_corpus(options(folder_ / "tokens"));
  EXPECT_EQ(corpus.facts.not_utf8, (Seen{1, "a.txt, byte " + std::to_string(some_text(50).size() + 3)}));
  EXPECT_THAT(data_notes(corpus), ElementsAre(HasSubstr("kept bytes that are no UTF-8, in 1 file, a.txt, byte ")));
  folder_.write("tokens/text.json", "[");
  fs::remove(folder_ / "tokens/files.json");
  EXPECT_FALSE(open_corpus(options(folder_ / "tokens")).facts.not_utf8.has_value());
}

// As `prepare` leaves them of a text whose last line is short.
TEST_F(CorpusTest, TokensToValidateWithThatHaveNoWindowAreHeldBackWithOthers) {
  folder_.write("tokens/x_train.bin", bytes_of(std::vector<uint16_t>(198, 7)));
  folder_.write("tokens/x_val.bin", bytes_of<uint16_t>({8, 9}));
  const Corpus corpus = open_corpus(options(folder_ / "tokens"));
  EXPECT_EQ(corpus.training->size(), 190);
  EXPECT_THAT(read_all(*corpus.validation), ElementsAre(7, 7, 7, 7, 7, 7, 7, 7, 8, 9));
  CorpusOptions given = options(folder_ / "tokens");
  given.validation_fraction = 0;
  EXPECT_EQ(open_corpus(given).training->size(), 198);
  EXPECT_EQ(open_corpus(given).validation, nullptr);
}

TEST_F(CorpusTest, PartOfTheTokensIsHeldBack) {
  CorpusOptions given = options(folder_.write("x.bin", bytes_of(std::vector<uint16_t>(100, 7))));
  given.validation_fraction = 0.1;
  const Corpus corpus = open_corpus(given);
  EXPECT_EQ(corpus.training->size(), 90);
  EXPECT_EQ(corpus.validation->size(), 10);
}

TEST_F(CorpusTest, SaysWhatIsWrong) {
  EXPECT_THAT(error_of(options(folder_ / "none")), HasSubstr("none' does not exist"));
  EXPECT_THAT(error_of(options(folder_ / "none.bin")),
              HasSubstr("token file '" + (folder_ / "none.bin") + "' cannot be read: No such file or directory"));
  EXPECT_THAT(error_of(options(folder_.write("short", "abcd"))),
              HasSubstr("short' has 4 tokens, and one window of context 4 needs 5"));
  EXPECT_THAT(error_of(options(folder_.write("short.bin", "abcd"))), HasSubstr("short.bin' has 2 tokens"));
  CorpusOptions given = options(folder_.write("long.bin", std::string(100, 'x')));
  given.trained_vocabulary = 300;
  EXPECT_THAT(error_of(given), HasSubstr("is tokens already: no tokenizer can be trained on it"));
  given = options(folder_.write("text", std::string(100, 'x')));
  given.tokenizer = folder_ / "none.model";
  EXPECT_THAT(error_of(given), HasSubstr("none.model' does not exist"));
}

TEST_F(CorpusTest, AVocabularyThatIsTooSmallIsFound) {
  const Corpus corpus = open_corpus(options(folder_.write("a.txt", some_text(10))));
  EXPECT_EQ(vocabulary_problem(corpus, 256), "");
  EXPECT_EQ(vocabulary_problem(corpus, 255),
            "tokenizer 'bytes' has 256 tokens, and the model has a vocabulary of 255. Give the model the tokenizer's "
            "vocabulary, or use another tokenizer.");
}

class EncodedCorpusTest : public CorpusTest {
 protected:
  void SetUp() override {
    if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  }
  CorpusOptions trained(const std::string& data) const {
    CorpusOptions given = options(data);
    given.trained_vocabulary = 320;
    return given;
  }
  int entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_ / "cache"), fs::directory_iterator()));
  }
  // Calls of the progress function: none when nothing is encoded.
  int work(const CorpusOptions& given) {
    int calls = 0;
    open_corpus(given, [&](int64_t, int64_t) { ++calls; });
    return calls;
  }
};

TEST_F(EncodedCorpusTest, IsTheTextInTokens) {
  const std::string text = some_text(2000);
  const Corpus corpus = open_corpus(trained(folder_.write("a.txt", text)));
  EXPECT_EQ(corpus.tokenizer->vocabulary(), 320);
  std::string decoded;
  for (const Tokens& part : {corpus.training, corpus.validation}) {
    const std::vector<int64_t> wide = read_all(*part);
    const std::vector<int32_t> tokens(wide.begin(), wide.end());
    decoded += corpus.tokenizer->decode(tokens);
  }
  EXPECT_EQ(decoded, text);
}

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

TEST_F(EncodedCorpusTest, InOneLineHoldsBackTheLastTokens) {
  const std::string line = in_one_line(some_text(2000));
  for (const char* end : {"", "\n", "\nx"}) {
    const Corpus corpus = open_corpus(trained(folder_.write("a.txt", line + end)));
    ASSERT_NE(corpus.validation, nullptr) << end;
    const int64_t all = corpus.training->size() + corpus.validation->size();
    EXPECT_EQ(corpus.validation->size(), all / 20) << end;
    EXPECT_THAT(data_notes(corpus), ElementsAre("held back the last 5 % for validation"));
  }
  CorpusOptions given = trained(folder_.write("a.txt", line));
  given.validation_fraction = 0;
  EXPECT_EQ(open_corpus(given).validation, nullptr);
}

TEST_F(EncodedCorpusTest, IsEncodedOnce) {
  const std::string path = folder_.write("a.txt", some_text(2000));
  const CorpusOptions given = trained(path);
  EXPECT_GT(work(given), 0);
  const int made = entries();
  EXPECT_EQ(work(given), 0);
  EXPECT_EQ(entries(), made);

  CorpusOptions other = given;
  other.validation_fraction = 0.5;
  EXPECT_GT(work(other), 0);
  other = given;
  other.trained_vocabulary = 330;
  EXPECT_GT(work(other), 0);
  folder_.write("a.txt", some_text(2001));
  EXPECT_GT(work(given), 0);
}

TEST_F(EncodedCorpusTest, SaysTheSameOfTokensInTheCache) {
  const CorpusOptions given = trained(folder_.write("a.txt", some_text(2000) + "caf\xe9\n"));
  const Corpus corpus = open_corpus(given);
  const std::vector<int64_t> wide = read_all(*corpus.validation);
  EXPECT_THAT(corpus.tokenizer->decode(std::vector<int32_t>(wide.begin(), wide.end())), HasSubstr("caf\xef\xbf\xbd\n"));
  const std::vector<std::string> notes = data_notes(corpus);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("replaced by U+FFFD bytes that are no UTF-8, in 1 file, a.txt, byte "),
                                 "held back the last 5 % for validation"));
  EXPECT_EQ(data_notes(open_corpus(given)), notes);
}

TEST_F(EncodedCorpusTest, AModelIsTakenFromItsFile) {
  const CorpusOptions first = trained(folder_.write("a.txt", some_text(2000)));
  const auto model = open_corpus(first).tokenizer->file();
  CorpusOptions given = options(first.data);
  given.tokenizer = folder_.write("own.model", model.bytes);
  EXPECT_EQ(open_corpus(given).tokenizer->name(), given.tokenizer);
  EXPECT_EQ(work(given), 0);  // the same tokens as those of the model in the cache
}

TEST_F(EncodedCorpusTest, WhatAKilledProcessLeftIsRemoved) {
  folder_.write("cache/tokens-0123456789abcdef.partial-77/train.bin", "half");
  work(trained(folder_.write("a.txt", some_text(2000))));
  EXPECT_FALSE(fs::exists(folder_ / "cache/tokens-0123456789abcdef.partial-77"));
}

TEST_F(EncodedCorpusTest, SaysThatTheCacheCannotBeUsed) {
  CorpusOptions given = trained(folder_.write("a.txt", some_text(2000)));
  given.cache = folder_ / "a.txt";
  EXPECT_THAT(error_of(given), AllOf(HasSubstr("cache '" + (folder_ / "a.txt") + "' cannot be used: Not a directory")));
}

TEST(CacheFolder, IsWhereTheEnvironmentSays) {
  ASSERT_EQ(setenv("FSDP_CACHE", "/of/fsdp", 1), 0);
  EXPECT_EQ(cache_folder(), "/of/fsdp");
  ASSERT_EQ(unsetenv("FSDP_CACHE"), 0);
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/of/all", 1), 0);
  EXPECT_EQ(cache_folder(), "/of/all/fsdp");
  ASSERT_EQ(unsetenv("XDG_CACHE_HOME"), 0);
  ASSERT_EQ(setenv("HOME", "/home/me", 1), 0);
  EXPECT_EQ(cache_folder(), "/home/me/.cache/fsdp");
  ASSERT_EQ(unsetenv("HOME"), 0);
  EXPECT_EQ(cache_folder(), "fsdp-cache");
}

}  // namespace
}  // namespace data
