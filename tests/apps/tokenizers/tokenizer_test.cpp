#include "tokenizers/tokenizer.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace tokenizers {
namespace {

using fsdp::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& name) {
  return message_of<fsdp::Error>([&] { make_tokenizer(name); });
}

TEST(Bytes, AreTheirOwnTokens) {
  const auto bytes = make_tokenizer("bytes");
  EXPECT_EQ(bytes->name(), "bytes");
  EXPECT_EQ(bytes->vocabulary(), 256);
  EXPECT_EQ(bytes->end_of_text(), std::nullopt);
  const std::string text("a\0\xff\n", 4);
  EXPECT_THAT(bytes->encode(text), ElementsAre(97, 0, 255, 10));
  EXPECT_EQ(bytes->decode(bytes->encode(text)), text);
  EXPECT_TRUE(bytes->encode("").empty());
}

TEST(Bytes, RefuseWhatIsNoByte) {
  for (int32_t token : {-1, 256}) {
    EXPECT_THAT(message_of<fsdp::Error>([&] { make_tokenizer("bytes")->decode({{token}}); }),
                HasSubstr("token " + std::to_string(token) + " is no byte"));
  }
}

TEST(Tokenizer, OfBytesIsFoundInItsFolder) {
  TemporaryFolder folder;
  EXPECT_FALSE(has_tokenizer(folder.path()));
  const Tokenizer::File file = make_tokenizer("bytes")->file();
  folder.write(file.name, file.bytes);
  EXPECT_TRUE(has_tokenizer(folder.path()));
  EXPECT_EQ(make_tokenizer(folder.path().string())->name(), "bytes");
  EXPECT_EQ(make_tokenizer(folder / file.name)->name(), "bytes");
}

TEST(Tokenizer, ErrorsNameTheThing) {
  TemporaryFolder folder;
  EXPECT_THAT(
      error_of(folder / "none.model"),
      HasSubstr("none.model' does not exist. Name bytes, a sentencepiece model, a tokenizer.json of Hugging Face"));
  EXPECT_THAT(error_of("byte"), HasSubstr("tokenizer 'byte' does not exist"));
  EXPECT_THAT(error_of(""), HasSubstr("tokenizer '' does not exist"));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("holds neither tokenizer.model nor tokenizer.json"));
  EXPECT_THAT(error_of(folder.write("empty.model", "")), HasSubstr("empty.model' is empty"));
  EXPECT_THAT(error_of(folder.write("foreign.json", "{\"version\": \"1.0\"}")),
              HasSubstr("foreign.json' is JSON, but neither a tokenizer.json of Hugging Face, which has a 'model', nor "
                        "{\"tokenizer\": \"bytes\"}"));
  EXPECT_THAT(error_of(folder.write("cut.json", "{\"tokenizer\": \"by")), HasSubstr("cut.json' is damaged: "));
  EXPECT_THAT(error_of(folder.write("more.json", "{\"tokenizer\": \"bytes\", \"tokens\": 7}")),
              HasSubstr("is JSON, but neither"));
  EXPECT_THAT(error_of(folder.write("deep.json", "{\"tokenizer\":" + std::string(200'000, '['))),
              HasSubstr("deep.json' is damaged: its values nest deeper than 64 levels"));
  const std::string large = folder.write("large.model", "x");
  std::filesystem::resize_file(large, int64_t{5} << 30);
  EXPECT_THAT(error_of(large), HasSubstr("large.model' has 5368709120 bytes, expected at most 67108864"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder / "pipe"), HasSubstr("is neither a file nor a folder"));
}

TEST(Tokenizer, InJsonIsSaidToBeDamagedAsJson) {
  TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes) { return error_of(folder.write("a.json", bytes)); };
  EXPECT_THAT(refused("[1, 2]"), HasSubstr("is JSON, but neither"));
  for (const std::string& bytes : {std::string("damaged"), std::string(" {\"model\": "), std::string(100, '\0'),
                                   std::string("\xef\xbb\xbf{\"model\":")}) {
    EXPECT_THAT(refused(bytes), HasSubstr("a.json' is damaged: ")) << bytes;
  }
  for (const char* model : {"null", "{}", "[]", "{\"type\": \"BPE\"}"}) {  // whether a Python is there or not
    EXPECT_THAT(refused("{\"model\": " + std::string(model) + "}"),
                HasSubstr("a.json' is no tokenizer.json of Hugging Face, or is damaged: its 'model' has no 'vocab'"));
  }
  folder.write("gpt2/merges.txt", "");
  folder.write("gpt2/vocab.json", "{\"a\": ");
  EXPECT_THAT(error_of(folder / "gpt2"), HasSubstr("gpt2/vocab.json' is damaged: "));
  for (const char* before : {"\xef\xbb\xbf", "\n "}) {
    const std::string file = folder.write("bytes.json", before + std::string("{\"tokenizer\": \"bytes\"}"));
    EXPECT_EQ(make_tokenizer(file)->name(), "bytes");
  }
}

}  // namespace
}  // namespace tokenizers
