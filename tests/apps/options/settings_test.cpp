// The settings that a run begins with.
#include "options/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "data/byte_tokens.h"
#include "options/resolve.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

class SettingsTable : public testing::Test {
 protected:
  std::string table(RunOptions options) {
    options.text = folder_.write("text", std::string(5000, 'x'));
    options.run = "run-1";
    options.threads = 1;
    EXPECT_THAT(resolve(options, {.ranks = options.ranks}), testing::IsEmpty());
    data::Corpus corpus;
    corpus.training = data::byte_tokens(std::make_shared<const data::TextFiles>(options.text));
    return settings_table(options, corpus);
  }

  TemporaryFolder folder_;
};

TEST_F(SettingsTable, FitsInto80Columns) {
  RunOptions options;
  options.optimizer = "muon";
  options.strategy = "hybrid-shard-grad-op";
  options.shard_group_size = 2;
  options.ranks = 16;
  options.target_tokens_per_step = 1'000'000;
  options.param_dtype = "fp16";
  options.schedule = "wsd";
  std::istringstream lines(table(options));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(SettingsTable, SaysWhatIsPeculiarInTheData) {
  RunOptions options;
  options.text = folder_.write("dos.txt", std::string(5000, 'x') + "\r\n");
  options.model.vocabulary = 300;
  EXPECT_THAT(resolve(options, {}), testing::IsEmpty());
  const std::string text = settings_table(options, data::open_text({.data = options.text, .context = 128}));
  EXPECT_THAT(text, HasSubstr("\n                 kept CR LF at the ends of lines, in 1 file, dos.txt\n"
                              "                 held back the last 5 % for validation\n"));
  EXPECT_THAT(text, HasSubstr("bytes, a vocabulary of 300, of which the tokenizer has 256\n"));
}

TEST_F(SettingsTable, CountsOneAndMany) {
  RunOptions one;
  EXPECT_THAT(table(one), HasSubstr("1 rank, 1 thread per rank"));
  EXPECT_THAT(table(one), HasSubstr("1 rank x 1 micro-batch x 8 sequences x 128 = 1,024 tokens"));
  RunOptions two;
  two.ranks = 2;
  two.micro_batches = 3;
  two.batch = 1;
  EXPECT_THAT(table(two), HasSubstr("2 ranks x 3 micro-batches x 1 sequence x 128 = 768 tokens"));
}

}  // namespace
}  // namespace trainer
