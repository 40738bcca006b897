#include "generation/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/tokenizers/byte_level.h"
#include "apps/tokenizers/sentences.h"
#include "support/required.h"
#include "tokenizers/bytes.h"
#include "tokenizers/hugging_face.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> shown(const tokenizers::Tokenizer& tokenizer, const std::string& prompt,
                               const std::string& text) {
  std::vector<std::string> parts;
  TextStream stream(tokenizer, [&](std::string_view part) { parts.emplace_back(part); });
  stream.add(tokenizer.encode(prompt));
  for (int32_t token : tokenizer.encode(text)) stream.add({&token, 1});
  stream.end();
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

TEST(TextStream, ShowsWholeCharactersAsTheyCome) {
  const auto bytes = tokenizers::make_bytes();
  EXPECT_THAT(shown(*bytes, "one ", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!"),
              ElementsAre("one ", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "!"));
  EXPECT_THAT(shown(*bytes, "\xe2", "\x82\xac."), ElementsAre("\xe2\x82\xac", "."));  // a prompt that was cut
}

TEST(TextStream, LosesNothingThatIsNoUtf8) {
  const auto bytes = tokenizers::make_bytes();
  for (const std::string& text : {std::string("a\xff\xfe z"), std::string("\xf0\x9f"), std::string("\xc3z\xc3"),
                                  std::string(9, '\xe2'), std::string(9, '\x80'), std::string("\0x", 2)}) {
    EXPECT_EQ(joined(shown(*bytes, "", text)), text);
  }
}

TEST(TextStream, OfTokensThatArePartsOfCharactersIsTheText) {
  if (!tokenizers::has_hugging_face()) FSDP_SKIP_TEST("no Python has the package tokenizers (pip install tokenizers)");
  const auto tokenizer = tokenizers::make_hugging_face(some_byte_level().tokenizer_json(), "test");
  const std::string text = "the \xf0\x9f\x98\x80 \xe6\xb0\xb4\n " + some_text(2);
  const std::vector<std::string> parts = shown(*tokenizer, "the caf\xc3\xa9", text);
  EXPECT_EQ(joined(parts), "the caf\xc3\xa9" + text);
  for (const std::string& part : parts) EXPECT_EQ(part.find("\xef\xbf\xbd"), std::string::npos) << part;
}

// A decoder shows each of these parts of characters as U+FFFD. The character after them is whole all the same.
TEST(TextStream, OfACharacterAfterPartsOfOthersIsTheText) {
  if (!tokenizers::has_hugging_face()) FSDP_SKIP_TEST("no Python has the package tokenizers (pip install tokenizers)");
  const auto tokenizer = tokenizers::make_hugging_face(some_byte_level().tokenizer_json(), "test");
  const std::vector<int32_t> whole = tokenizer->encode("\xc8\xaa");
  ASSERT_EQ(whole.size(), 2u);
  for (const size_t parts : {1, 2, 3, 4, 5, 6, 7}) {
    std::vector<int32_t> tokens(parts, whole[0]);
    tokens.insert(tokens.end(), whole.begin(), whole.end());
    std::string all;
    TextStream stream(*tokenizer, [&](std::string_view part) { all += part; });
    for (const int32_t token : tokens) stream.add({&token, 1});
    stream.end();
    EXPECT_EQ(all, tokenizer->decode(tokens)) << parts;
  }
}

}  // namespace
}  // namespace trainer
