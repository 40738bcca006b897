#include "data/encode.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/data/support.h"
#include "data/token_file.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// Each letter is a token; a piece begins with a token of its own, so that pieces show, and 99 ends a text.
class Pieces final : public tokenizers::Tokenizer {
 public:
  std::string name() const override { return "pieces"; }
  int64_t vocabulary() const override { return 300; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens = {256};
    for (char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  std::string decode(std::span<const int32_t>) const override { return ""; }
  std::optional<int32_t> end_of_text() const override { return 299; }
  File file() const override { return {.name = "tokenizer.json", .bytes = "{}"}; }
};

std::vector<int64_t> encoded(const TemporaryFolder& folder, const TextPart& part,
                             const tokenizers::Tokenizer& tokenizer, int threads) {
  TokenWriter writer(folder / "tokens.bin", TokenKind::kNanoGpt);
  Utf8Check check;
  encode(part, tokenizer, threads, writer, check, {});
  writer.commit();
  return read_all(TokenFile(folder / "tokens.bin"));
}

TEST(Cut, IsAfterTheLastLineThenBeforeTheLastWordThenBetweenCharacters) {
  EXPECT_EQ(cut_of("one\ntwo\nthr"), 8u);
  EXPECT_EQ(cut_of("one two\nthr\n f"), 8u);         // a token may hold the second newline and the space
  EXPECT_EQ(cut_of("one\na long line\n thr"), 16u);  // the other cut would leave less than half
  EXPECT_EQ(cut_of("one two thr"), 7u);
  EXPECT_EQ(cut_of(" onetwothr"), 9u);
  EXPECT_EQ(cut_of("abc\xe2\x82"), 3u);         // the first two of three bytes
  EXPECT_EQ(cut_of("abc\xe2\x82\xac"), 3u);     // where the text is complete does not show
  EXPECT_EQ(cut_of("ab\xf0\x9f\x98"), 2u);      // three of four
  EXPECT_EQ(cut_of("\x80\x80\x80\x80"), 1u);    // no UTF-8 at all
  EXPECT_EQ(cut_of("ab\x80\x80\x80\x80"), 2u);  // no character is as long
}

TEST(TextPieces, AreTheTextInOrder) {
  TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 30'000; ++i) bytes += "line " + std::to_string(i) + "\n";
  const TextFiles text(folder.write("a", bytes));
  TextPieces pieces(all_of(text));
  std::string together;
  int count = 0;
  while (const auto piece = pieces.next()) {
    EXPECT_LE(piece->text.size(), 65536u);
    EXPECT_EQ(piece->text.back(), '\n');
    together += piece->text;
    EXPECT_EQ(piece->ends_file, together.size() == bytes.size());
    ++count;
  }
  EXPECT_EQ(together, bytes);
  EXPECT_EQ(count, static_cast<int>(bytes.size() / 65536) + 1);
}

TEST(Encode, EndsEachFile) {
  TemporaryFolder folder;
  folder.write("text/1", "ab");
  folder.write("text/2", "c\n");
  const TextFiles text(folder.path() / "text");
  EXPECT_THAT(encoded(folder, all_of(text), Pieces(), 1), ElementsAre(256, 'a', 'b', '\n', 299, 256, 'c', '\n', 299));
  // A part that ends within a file does not end it.
  EXPECT_THAT(encoded(folder, {&text, 1, 4}, Pieces(), 1), ElementsAre(256, 'b', '\n', 299, 256, 'c'));
}

TEST(Encode, GivesTheSameWithAnyNumberOfThreads) {
  TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 40'000; ++i) bytes += "line " + std::to_string(i) + "\n";
  folder.write("text/1", bytes);
  folder.write("text/2", bytes.substr(0, 100'000));
  const TextFiles text(folder.path() / "text");
  const std::vector<int64_t> expected = encoded(folder, all_of(text), Pieces(), 1);
  for (int threads : {2, 3, 16})
    EXPECT_THAT(encoded(folder, all_of(text), Pieces(), threads), ElementsAreArray(expected));
}

TEST(Encode, CountsFilesThatAreNotUtf8) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 30'000; ++i) lines += "caf\xc3\xa9 " + std::to_string(i) + "\n";
  folder.write("text/1", lines);
  folder.write("text/2", "fine\n" + lines + "caf\xe9\n" + lines + "caf\xe9\n");  // in several pieces
  folder.write("text/deep/3", "caf\xe9\n" + lines);
  const TextFiles text(folder.path() / "text");
  TokenWriter writer(folder / "tokens.bin", TokenKind::kNanoGpt);
  Utf8Check check;
  const int64_t middle = text.size() / 2;  // in the second file
  encode({&text, 0, middle}, Pieces(), 2, writer, check, {});
  encode({&text, middle, text.size()}, Pieces(), 2, writer, check, {});
  EXPECT_EQ(check.files(), (Seen{2, "2, byte " + std::to_string(5 + lines.size() + 3)}));
}

TEST(Encode, TellsOfItsProgressAndCanBeEnded) {
  TemporaryFolder folder;
  const TextFiles text(folder.write("a", std::string(200'000, 'x')));
  std::vector<int64_t> done;
  TokenWriter writer(folder / "tokens.bin", TokenKind::kNanoGpt);
  Utf8Check check;
  encode(all_of(text), Pieces(), 1, writer, check, [&](int64_t now, int64_t total) {
    EXPECT_EQ(total, 200'000);
    done.push_back(now);
  });
  EXPECT_THAT(done, ElementsAre(65535, 131070, 196605, 200000));
  const auto stop = [](int64_t, int64_t) { throw fsdp::Error("stopped"); };
  EXPECT_EQ(fsdp::testing::message_of([&] { encode(all_of(text), Pieces(), 2, writer, check, stop); }), "stopped");
}

}  // namespace
}  // namespace data
