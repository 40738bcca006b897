// A text is turned into tokens when all else is in order, not before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/tokenizers/sentences.h"
#include "fsdp-train/inputs.h"
#include "support/required.h"
#include "support/temporary_folder.h"
#include "tokenizers/sentencepiece.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LateEncoding : public testing::Test {
 protected:
  LateEncoding() {
    options_.text = folder_.write("text", some_text(3000));
    options_.cache = folder_ / "cache";
    options_.run = folder_ / "run";
    options_.tokenizer = "train:350";
  }

  TemporaryFolder folder_;
  AllOptions options_;
};

TEST_F(LateEncoding, WaitsUntilAllElseIsKnown) {
  if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  Inputs inputs = read_inputs(options_);
  EXPECT_THAT(inputs.problems, IsEmpty());
  EXPECT_FALSE(inputs.windows(options_.model.context).has_value());
  EXPECT_FALSE(fs::exists(options_.cache));
  EXPECT_THAT(encode_text(options_, inputs), IsEmpty());
  EXPECT_EQ(inputs.corpus.tokenizer->vocabulary(), 350);
  EXPECT_TRUE(fs::exists(options_.cache));
}

TEST_F(LateEncoding, IsPrecededByAllThatCanBeWrong) {
  options_.text = folder_ / "none";
  options_.validation = folder_ / "nothing";
  options_.tokenizer = folder_ / "no.model";
  options_.checkpoint = folder_ / "no-checkpoint";
  EXPECT_THAT(read_inputs(options_).problems,
              ElementsAre(HasSubstr("none' does not exist"), HasSubstr("nothing' does not exist"),
                          HasSubstr("no.model' does not exist"), HasSubstr("no-checkpoint' does not exist")));
  EXPECT_FALSE(fs::exists(options_.cache));
}

TEST_F(LateEncoding, SaysWhatIsWrongWithTheText) {
  if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  options_.tokenizer = "train:3";
  Inputs inputs = read_inputs(options_);
  EXPECT_THAT(inputs.problems, IsEmpty());
  EXPECT_THAT(encode_text(options_, inputs), ElementsAre(HasSubstr("vocabulary")));
}

TEST_F(LateEncoding, IsNotNeededForBytes) {
  options_.tokenizer = "bytes";
  Inputs inputs = read_inputs(options_);
  EXPECT_TRUE(inputs.windows(options_.model.context).has_value());
  EXPECT_THAT(encode_text(options_, inputs), IsEmpty());
}

TEST_F(LateEncoding, OfPrepareUsesTheSameCache) { EXPECT_EQ(preparation_of(options_.prepare()).cache, options_.cache); }

}  // namespace
}  // namespace trainer
