#include "tokenizers/sentencepiece.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
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
  // A double array that maps A to the first text (sentencepiece_check.h): the root leads to the second block.
  using NormaliserArray = std::array<uint32_t, 512>;
  static constexpr NormaliserArray kTwoBlocks = [] {
    NormaliserArray array{};
    array[0] = 256u << 10;
    array[256 ^ 'A'] = static_cast<uint32_t>('A') << 10 | 1u << 8 | 'A';
    array[256] = 1u << 31;
    return array;
  }();
  // The model with one more normaliser, in place of its own.
  static std::string with_normaliser(const NormaliserArray& array, const std::string& text) {
    const uint32_t size = sizeof array;
    std::string map(reinterpret_cast<const char*>(&size), sizeof size);
    map.append(reinterpret_cast<const char*>(array.data()), size);
    map += text + '\0';
    return model() + field(3, field(2, map));
  }
  // Of a protocol buffer.
  static std::string field(int number, const std::string& bytes) {
    std::string result(1, static_cast<char>(number << 3 | 2));
    for (size_t rest = bytes.size(); rest > 0; rest >>= 7) {
      result += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    }
    return result + bytes;
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

// `prepare` relies on this: it encodes texts in pieces.
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

// Whatever is wrong with a model, it is an error that names it, or the model works.
TEST_F(SentencePieceTest, DamagedModelsDoNoHarm) {
  const std::string text = some_text(20) + "\x01\xff \xe2\x82\xac AAA";
  int refused = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    std::minstd_rand random(seed);
    std::string bytes = seed % 2 == 0 ? model() : with_normaliser(kTwoBlocks, "b");
    if (seed % 5 == 0) bytes.resize(random() % bytes.size());
    const size_t region =
        seed % 3 == 0 ? std::min<size_t>(bytes.size(), 3000) : bytes.size();  // the normaliser is last
    for (uint32_t flips = random() % 8; flips > 0 && region > 0; --flips) {
      bytes[bytes.size() - 1 - random() % region] ^= static_cast<char>(1 << random() % 8);
    }
    const std::string message = message_of<fsdp::Error>([&] {
      const auto loaded = make_sentencepiece(bytes, "damaged.model");
      const std::vector<int32_t> tokens = loaded->encode(text);
      loaded->decode(tokens);
    });
    if (message == "no error") continue;
    ++refused;
    EXPECT_THAT(message, HasSubstr("damaged.model")) << seed;
  }
  EXPECT_GT(refused, 50);
}

TEST_F(SentencePieceTest, NormalisersAreFollowedWhereTheyLeadNowhereElse) {
  const auto normalising = make_sentencepiece(with_normaliser(kTwoBlocks, "b"), "own.model");
  EXPECT_EQ(normalising->encode("the A"), normalising->encode("the b"));
  EXPECT_NE(tokenizer()->encode("the A"), tokenizer()->encode("the b"));
}

TEST_F(SentencePieceTest, RefusesNormalisersThatLeadElsewhere) {
  const auto error_of = [](const std::string& bytes) {
    return message_of<fsdp::Error>([&] { make_sentencepiece(bytes, "x.model")->encode("A the A"); });
  };
  NormaliserArray far_away = kTwoBlocks, no_text = kTwoBlocks;
  far_away[0] = 0x1fffffu << 10;
  no_text[256] = 1u << 31 | 99'999;
  EXPECT_THAT(error_of(with_normaliser(far_away, "b")), HasSubstr("x.model' is no sentencepiece model, or is damaged: "
                                                                  "the array of a normaliser leads outside of itself"));
  EXPECT_THAT(error_of(with_normaliser(no_text, "b")), HasSubstr("leads outside of its texts"));
  EXPECT_THAT(error_of(with_normaliser(kTwoBlocks, std::string(100'000, 'b'))), HasSubstr("is too long"));
  std::string endless = with_normaliser(kTwoBlocks, "b");
  endless.back() = 'b';
  EXPECT_THAT(error_of(endless), HasSubstr("the texts of a normaliser do not end"));
}

TEST_F(SentencePieceTest, RefusesScoresThatAreNoNumbers) {
  const std::string piece = "\n\x01z\x15" + std::string("\0\0\xc0\x7f", 4);
  EXPECT_THAT(message_of<fsdp::Error>([&] { make_sentencepiece(model() + "\n\x08" + piece, "x.model"); }),
              HasSubstr("the score of a piece is no number"));
}

// Two bytes a piece would become gigabytes of them.
TEST_F(SentencePieceTest, RefusesPiecesWithoutBytes) {
  std::string many;
  for (int i = 0; i < 1'000'000; ++i) many += std::string("\n\0", 2);
  EXPECT_THAT(message_of<fsdp::Error>([&] { make_sentencepiece(model() + many, "x.model"); }),
              HasSubstr("a piece is empty"));
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
