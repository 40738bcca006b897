#include "tokenizers/hugging_face.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "apps/data/children.h"
#include "apps/data/support.h"
#include "apps/tokenizers/byte_level.h"
#include "apps/tokenizers/sentences.h"
#include "data/encode.h"
#include "data/token_file.h"
#include "support/message_of.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace tokenizers {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class HuggingFaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_hugging_face()) FSDP_SKIP_TEST("no Python has the package tokenizers (pip install tokenizers)");
  }

  std::string error_of(const std::string& bytes) {
    const std::string file = folder_.write("hostile.json", bytes);
    return message_of<fsdp::Error>([&] { make_tokenizer(file); });
  }

  TemporaryFolder folder_;
  ByteLevel byte_level_ = some_byte_level();
  std::string file_ = folder_.write("tokenizer.json", byte_level_.tokenizer_json());
};

TEST_F(HuggingFaceTest, ReadsATokenizerJson) {
  const auto tokenizer = make_tokenizer(file_);
  EXPECT_EQ(tokenizer->name(), file_);
  EXPECT_EQ(tokenizer->vocabulary(), byte_level_.size());
  EXPECT_EQ(tokenizer->end_of_text(), byte_level_.id("<|endoftext|>"));
  EXPECT_THAT(tokenizer->encode("the worm"), ElementsAre(byte_level_.id("the"), byte_level_.id("\xc4\xa0w"),
                                                         byte_level_.id("or"), byte_level_.id("m")));
  EXPECT_THAT(tokenizer->encode("a<|endoftext|>"), ElementsAre(byte_level_.id("a"), *tokenizer->end_of_text()));
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_EQ(tokenizer->file().name, "tokenizer.json");
  EXPECT_EQ(tokenizer->file().bytes, byte_level_.tokenizer_json());
}

TEST_F(HuggingFaceTest, GivesTheTextBack) {
  const auto tokenizer = make_tokenizer(file_);
  for (const std::string& text : {some_text(20), std::string("  two  spaces \t and\r\n\n\nlines "),
                                  std::string("of \xe2\x82\xac, \xf0\x9f\x98\x80 and \xe6\xb0\xb4"), std::string("\n"),
                                  std::string("a\0b", 3), std::string()}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_EQ(tokenizer->decode({{byte_level_.id("a"), *tokenizer->end_of_text()}}), "a");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xff")), "a\xef\xbf\xbd");  // no UTF-8
  for (int32_t token : {-1, static_cast<int32_t>(byte_level_.size())}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { tokenizer->decode({{token}}); }),
                HasSubstr("token " + std::to_string(token) + " is outside of the vocabulary"));
  }
}

TEST_F(HuggingFaceTest, ReadsVocabJsonAndMerges) {
  const std::string folder = folder_ / "gpt2";
  folder_.write("gpt2/vocab.json", byte_level_.vocab_json());
  EXPECT_FALSE(has_tokenizer(folder));
  folder_.write("gpt2/merges.txt", byte_level_.merges_txt());
  EXPECT_TRUE(has_tokenizer(folder));
  const auto tokenizer = make_tokenizer(folder), same = make_tokenizer(file_);
  EXPECT_EQ(tokenizer->vocabulary(), same->vocabulary());
  EXPECT_EQ(tokenizer->end_of_text(), same->end_of_text());
  EXPECT_EQ(tokenizer->encode(some_text(5)), same->encode(some_text(5)));
  folder_.write("again/tokenizer.json", tokenizer->file().bytes);
  EXPECT_EQ(make_tokenizer(folder_ / "again")->encode(some_text(5)), same->encode(some_text(5)));
  folder_.write("gpt2/merges.txt", "#version: 0.2\nt h e\n");
  EXPECT_THAT(message_of<fsdp::Error>([&] { make_tokenizer(folder); }), HasSubstr("merges.txt has a line"));
  folder_.write("gpt2/vocab.json", "{\"a\": \"b\"}");
  EXPECT_THAT(message_of<fsdp::Error>([&] { make_tokenizer(folder); }), HasSubstr("no object of token numbers"));
}

TEST_F(HuggingFaceTest, ATextIsEncodedAsInOnePiece) {
  std::string text;
  for (int i = 0; i < 6000; ++i) {
    text += "the word " + std::to_string(i) + (i % 7 == 0 ? ".\n\n" : i % 5 == 0 ? "\n    indented\n" : ",\n");
  }
  const auto tokenizer = make_tokenizer(file_);
  const data::TextFiles files(folder_.write("text/a.txt", text));
  for (int threads : {1, 2}) {
    const std::string tokens = folder_ / ("tokens-" + std::to_string(threads) + ".bin");
    data::TokenWriter writer(tokens, data::TokenKind::kNanoGpt);
    data::Utf8Check check;
    data::encode(data::all_of(files), *tokenizer, threads, writer, check, {});
    writer.commit();
    std::vector<int32_t> whole = tokenizer->encode(text);
    whole.push_back(*tokenizer->end_of_text());
    EXPECT_THAT(data::read_all(data::TokenFile(tokens)), ElementsAreArray(whole));
  }
}

TEST_F(HuggingFaceTest, AProcessThatWasForkedHasAPythonOfItsOwn) {
  const auto tokenizer = make_tokenizer(file_);
  const std::string text = some_text(50);
  const std::vector<int32_t> expected = tokenizer->encode(text);
  const auto works = [&] {
    for (int time = 0; time < 5; ++time) {
      if (tokenizer->encode(text) != expected) return 1;
    }
    return tokenizer->decode(expected) == text ? 0 : 1;
  };
  const pid_t one = data::forked(works), two = data::forked(works);
  EXPECT_EQ(works(), 0);
  EXPECT_EQ(data::exit_code_of(one), 0);
  EXPECT_EQ(data::exit_code_of(two), 0);
}

TEST_F(HuggingFaceTest, RefusesHostileFiles) {
  const std::string whole = byte_level_.tokenizer_json();
  for (size_t part : {1u, 2u, 3u, 5u, 8u}) {
    EXPECT_THAT(error_of(whole.substr(0, whole.size() * part / 10)), HasSubstr("hostile.json' is damaged")) << part;
  }
  struct Change {
    const char* pointer;
    nlohmann::json value;
  };
  const std::string huge(1 << 20, 'x');
  for (const Change& change : std::vector<Change>{{"/model", 7},
                                                  {"/model/type", "Other"},
                                                  {"/model/vocab", nullptr},
                                                  {"/model/vocab", nlohmann::json::array()},
                                                  {"/model/vocab/a", -1},
                                                  {"/model/vocab/a", 4'000'000'000u},
                                                  {"/model/vocab/a", 1e300},
                                                  {"/model/merges", {"no such"}},
                                                  {"/model/merges", {7}},
                                                  {"/added_tokens", {{{"id", "x"}}}},
                                                  {"/pre_tokenizer", {{"type", huge}}},
                                                  {"/decoder/type", 1},
                                                  {"/version", "9.0"}}) {
    nlohmann::json json = byte_level_.tokenizer();
    json[nlohmann::json::json_pointer(change.pointer)] = change.value;
    const std::string error = error_of(json.dump());
    EXPECT_THAT(error, AllOf(HasSubstr("hostile.json' is no tokenizer.json of Hugging Face, or is damaged: ")))
        << change.pointer;
    EXPECT_LT(error.size(), 4000u);
  }
}

TEST_F(HuggingFaceTest, ErrorsNameThePackageAndThePythons) {
  const auto refused = [&](const std::string& script) {
    const std::string python = folder_.write("python", "#!/bin/sh\n" + script);
    chmod(python.c_str(), 0700);
    setenv("FSDP_PYTHON", python.c_str(), 1);
    const std::string message = message_of<fsdp::Error>([&] { make_tokenizer(file_); });
    unsetenv("FSDP_PYTHON");
    return message;
  };
  EXPECT_THAT(refused("exit 3"), AllOf(HasSubstr("needs Python with the package tokenizers: "),
                                       HasSubstr("/python ended by itself, with exit code 3. Install it (pip install "
                                                 "tokenizers)")));
  EXPECT_THAT(refused(R"(printf '\001\002\000\000\000\000\000\000\000no' >&0)"),
              HasSubstr("/python says: no. Install"));
  EXPECT_THAT(refused(R"(printf '\000\001\000\000\000\000\000\000\0001' >&0; kill -9 $$)"),
              HasSubstr("tokenizer.json': reading it failed, as "));
}

}  // namespace
}  // namespace tokenizers
