#include "tokenizers/sentencepiece.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "apps/tokenizers/sentences.h"
#include "support/message_of.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace tokenizers {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SentencePieceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  }

  static const std::string& model() {
    static const std::string bytes = train_sentencepiece(lines_of(some_text(2000)), 400);
    return bytes;
  }
  static std::shared_ptr<const Tokenizer> tokenizer() { return make_sentencepiece(model(), "test.model"); }
};

TEST_F(SentencePieceTest, TrainsAVocabulary) {
  const auto trained = tokenizer();
  EXPECT_EQ(trained->vocabulary(), 400);
  EXPECT_EQ(trained->name(), "test.model");
  ASSERT_TRUE(trained->end_of_text().has_value());
  const std::string text = some_text(100);
  EXPECT_LT(trained->encode(text).size(), text.size() / 2);
}

TEST_F(SentencePieceTest, GivesTheTextBack) {
  const auto trained = tokenizer();
  for (const std::string& text : {some_text(20), std::string("  two  spaces \t and\r\n\n\nlines "),
                                  std::string("of \xe2\x82\xac, \xf0\x9f\x98\x80 and \xe6\xb0\xb4"), std::string(" "),
                                  std::string("\n"), std::string()}) {
    const std::vector<int32_t> tokens = trained->encode(text);
    for (int32_t token : tokens) EXPECT_LT(token, trained->vocabulary());
    EXPECT_EQ(trained->decode(tokens), text);
  }
}

// What `prepare` rests on: it encodes texts in pieces.
TEST_F(SentencePieceTest, ATextCutAtItsLinesHasTheSameTokens) {
  const auto trained = tokenizer();
  const std::string text = some_text(50);
  std::vector<int32_t> tokens;
  for (size_t first = 0; first < text.size();) {
    const size_t length = text.find('\n', first) + 1 - first;
    const std::vector<int32_t> line = trained->encode(std::string_view(text).substr(first, length));
    tokens.insert(tokens.end(), line.begin(), line.end());
    first += length;
  }
  EXPECT_EQ(tokens, trained->encode(text));
}

TEST_F(SentencePieceTest, TrainsTheSameAgain) {
  EXPECT_EQ(train_sentencepiece(lines_of(some_text(2000)), 400), model());
  EXPECT_NE(train_sentencepiece(lines_of(some_text(2000)), 390), model());
}

TEST_F(SentencePieceTest, IsFoundInItsFolder) {
  TemporaryFolder folder;
  const Tokenizer::File file = tokenizer()->file();
  EXPECT_EQ(file.name, "tokenizer.model");
  folder.write(file.name, file.bytes);
  const auto found = make_tokenizer(folder.path().string());
  EXPECT_EQ(found->name(), folder / "tokenizer.model");
  EXPECT_EQ(found->encode(some_text(3)), tokenizer()->encode(some_text(3)));
}

TEST_F(SentencePieceTest, ThreadsMayShareOne) {
  const auto trained = tokenizer();
  const std::string text = some_text(200);
  const std::vector<int32_t> expected = trained->encode(text);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& tokens : found) threads.emplace_back([&] { tokens = trained->encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& tokens : found) EXPECT_EQ(tokens, expected);
}

TEST_F(SentencePieceTest, RefusesAnUnknownToken) {
  for (int32_t token : {-1, 400, 2147483647}) {
    EXPECT_THAT(
        message_of<fsdp::Error>([&] { tokenizer()->decode({{token}}); }),
        HasSubstr("token " + std::to_string(token) + " is outside of the vocabulary of tokenizer 'test.model'"));
  }
}

TEST_F(SentencePieceTest, RefusesDamagedModels) {
  TemporaryFolder folder;
  for (const std::string& bytes : {std::string("no model"), std::string(100, '\0'),
                                   model().substr(0, model().size() / 2), std::string("\n\xff\xff\xff\xff\x0f", 6)}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { make_tokenizer(folder.write("x.model", bytes)); }),
                HasSubstr("x.model' is no sentencepiece model, or is damaged"));
  }
}

TEST_F(SentencePieceTest, RefusesAVocabularyThatCannotBe) {
  for (int64_t vocabulary : {int64_t{-1}, int64_t{0}, int64_t{259}, int64_t{1} << 40}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { train_sentencepiece(lines_of("a b c"), vocabulary); }),
                HasSubstr("cannot have a vocabulary of " + std::to_string(vocabulary) + ": expected 260 to 1000000"));
  }
  EXPECT_THAT(
      message_of<fsdp::Error>([&] { train_sentencepiece(lines_of(some_text(2000)), 262); }),
      AllOf(HasSubstr("of 262 tokens cannot be trained on 2000 lines"), HasSubstr("Vocabulary size is smaller")));
}

TEST_F(SentencePieceTest, AShortTextGivesASmallerVocabulary) {
  const auto small = make_sentencepiece(train_sentencepiece(lines_of("to be or not to be"), 5000), "small");
  EXPECT_GT(small->vocabulary(), 259);
  EXPECT_LT(small->vocabulary(), 300);
  EXPECT_EQ(small->decode(small->encode("or not")), "or not");
}

TEST_F(SentencePieceTest, RefusesToTrainOnNothing) {
  EXPECT_THAT(message_of<fsdp::Error>([&] { train_sentencepiece(lines_of(""), 300); }),
              HasSubstr("cannot be trained on 0 lines"));
  EXPECT_THAT(message_of<fsdp::Error>([&] { train_sentencepiece(lines_of("\n\n"), 300); }),
              HasSubstr("cannot be trained on 2 lines"));
}

TEST_F(SentencePieceTest, WhatTheSentencesThrowArrives) {
  int given = 0;
  const NextSentence next = [&]() -> std::optional<std::string_view> {
    if (++given > 3) throw fsdp::Error("the disk is gone");
    return "a sentence";
  };
  EXPECT_EQ(message_of<fsdp::Error>([&] { train_sentencepiece(next, 300); }), "the disk is gone");
}

TEST(NoSentencePiece, SaysSo) {
  if (has_sentencepiece()) GTEST_SKIP() << "built with sentencepiece";
  EXPECT_THAT(message_of<fsdp::Error>([&] { make_sentencepiece("x", "x.model"); }),
              HasSubstr("tokenizer 'x.model' cannot be used: this program was built without sentencepiece"));
  EXPECT_THAT(message_of<fsdp::Error>([&] { train_sentencepiece({}, 300); }),
              HasSubstr("no tokenizer can be trained: this program was built without sentencepiece"));
}

}  // namespace
}  // namespace tokenizers
