#include "training/export_tokenizer.h"

#include <gtest/gtest.h>

#include "apps/tokenizers/byte_level.h"
#include "apps/tokenizers/sentences.h"
#include "support/required.h"
#include "support/temporary_folder.h"
#include "tokenizers/bytes.h"
#include "tokenizers/hugging_face.h"

namespace trainer {
namespace {

TEST(ExportTokenizer, WritesWhatTransformersReads) {
  if (!tokenizers::has_hugging_face()) FSDP_SKIP_TEST("no Python has the package tokenizers (pip install tokenizers)");
  TemporaryFolder folder;
  const std::string json = some_byte_level().tokenizer_json();
  export_tokenizer(folder.path(), *tokenizers::make_hugging_face(json, "test"), 128);
  EXPECT_EQ(read_bytes(folder / "tokenizer.json"), json);
  const auto configuration = nlohmann::json::parse(read_bytes(folder / "tokenizer_config.json"));
  EXPECT_EQ(configuration["eos_token"], "<|endoftext|>");
  EXPECT_EQ(configuration["model_max_length"], 128);
  EXPECT_EQ(configuration["tokenizer_class"], "PreTrainedTokenizerFast");
}

TEST(ExportTokenizer, WritesASentencepieceModel) {
  if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  TemporaryFolder folder;
  const std::string model = tokenizers::train_sentencepiece(lines_of(some_text(2000)), 400);
  export_tokenizer(folder.path(), *tokenizers::make_sentencepiece(model, "test"), 128);
  EXPECT_EQ(read_bytes(folder / "tokenizer.model"), model);
}

TEST(ExportTokenizer, WritesBytesThatAreReadAsBytes) {
  TemporaryFolder folder;
  export_tokenizer(folder.path(), *tokenizers::make_bytes(), 128);
  EXPECT_EQ(tokenizers::make_tokenizer(folder.path())->name(), "bytes");
  const auto configuration = nlohmann::json::parse(read_bytes(folder / "tokenizer_config.json"));
  EXPECT_EQ(configuration["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_FALSE(configuration.contains("eos_token"));
}

TEST(ExportTokenizer, WritesBytesThatAreThoseOfHuggingFace) {
  if (!tokenizers::has_hugging_face()) FSDP_SKIP_TEST("no Python has the package tokenizers (pip install tokenizers)");
  const auto theirs = tokenizers::make_hugging_face(tokenizers::bytes_as_hugging_face(), "test");
  std::string text;  // each byte that UTF-8 has: those of all characters below 0x800, and of some above
  for (int character = 0; character < 0x800; ++character) {
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
    }
  }
  text += "\xe1\x88\xb4 \xf0\x9f\x98\x80\r\n  end";
  EXPECT_EQ(theirs->vocabulary(), 256);
  EXPECT_EQ(theirs->encode(text), tokenizers::make_bytes()->encode(text));
  EXPECT_EQ(theirs->decode(theirs->encode(text)), text);
}

}  // namespace
}  // namespace trainer
