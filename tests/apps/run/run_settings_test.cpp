#include "run/run_settings.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RunSettingsTest : public testing::Test {
 protected:
  RunSettings settings(const RunOptions& options, const std::string& text) {
    return settings_of(options, data::open_text({.data = folder_.write("text", text), .validation_fraction = 0}));
  }

  TemporaryFolder folder_;
  RunOptions options_;
  std::string text_ = std::string(100'000, 'a');
};

TEST_F(RunSettingsTest, OfTheSameRunDifferInNothing) {
  RunOptions again = options_;
  again.run = "elsewhere";
  again.cache = "elsewhere";
  again.threads = 3;
  again.save_every = 5;
  const auto [kept, free] = difference(settings(options_, text_), settings(again, text_));
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_THAT(free, IsEmpty());
}

TEST_F(RunSettingsTest, SayWhatMakesItAnother) {
  RunOptions other = options_;
  other.seed = 2;
  other.model.width = 64;
  other.micro_batches = 2;
  const auto [kept, free] = difference(settings(options_, text_), settings(other, text_));
  EXPECT_THAT(in_one_line({kept, {}}),
              AllOf(HasSubstr("--seed: 1 before, 2 now"), HasSubstr("--width: 128 before, 64 now"),
                    HasSubstr("the tokens of a step: 1,024 before, 2,048 now")));
  EXPECT_EQ(in_one_line({{}, free}), "--micro-batches: 1 before, 2 now");
}

TEST_F(RunSettingsTest, DifferInRows) {
  EXPECT_EQ(in_rows({{{"--seed", "1", "2"}, {"the tokens of a step", "1,024", "2,048"}}, {{"--lr", "0.1", "0.25"}}}),
            "\n    name                  before  now"
            "\n    --seed                1       2"
            "\n    the tokens of a step  1,024   2,048"
            "\n    (and these, which may differ)"
            "\n    --lr                  0.1     0.25");
  EXPECT_EQ(in_rows({{}, {{"--lr", "0.1", "0.25"}}}), "\n    name  before  now\n    --lr  0.1     0.25");
}

TEST_F(RunSettingsTest, SayWhatMayChange) {
  RunOptions other = options_;
  other.lr = 0.25;
  other.ranks = 2;
  other.batch = 4;
  other.text = "\xff elsewhere";
  const auto [kept, free] = difference(settings(options_, text_), settings(other, text_));
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_THAT(in_one_line({{}, free}),
              AllOf(HasSubstr("--lr: 0.001 before, 0.25 now"), HasSubstr("--batch: 8 before, 4 now"),
                    HasSubstr("--text: not given before, \\xff elsewhere now")));
}

TEST_F(RunSettingsTest, KnowOtherDataOfTheSameSize) {
  const RunSettings saved = settings(options_, text_);
  text_.replace(text_.size() / 2, 2000, std::string(2000, 'b'));
  EXPECT_THAT(in_one_line(difference(saved, settings(options_, text_))),
              HasSubstr("the training data: 100,000 tokens ("));
  EXPECT_THAT(in_one_line(difference(saved, settings(options_, std::string(90'000, 'a')))),
              HasSubstr("90,000 tokens ("));
}

TEST_F(RunSettingsTest, KnowEveryByteThatChanges) {
  const RunSettings saved = settings(options_, text_);
  for (size_t place = 0; place < text_.size(); place += text_.size() / 13) {
    std::string changed = text_;
    changed[place] = 'b';
    EXPECT_THAT(in_one_line(difference(saved, settings(options_, changed))),
                HasSubstr("the content of the training data: "))
        << place;
  }
}

TEST_F(RunSettingsTest, OfValidationDataMayChangeAndAreTold) {
  const auto settings_with = [&](const std::string& validation) {
    return settings_of(options_, data::open_text({.data = folder_.write("text", text_),
                                                  .validation = folder_.write("validation", validation)}));
  };
  std::string changed = text_;
  changed[1234] = 'b';
  const SettingsDifference differs = difference(settings_with(text_), settings_with(changed));
  EXPECT_THAT(differs.kept, IsEmpty());
  EXPECT_THAT(in_one_line(differs), HasSubstr("the content of the validation data: "));
}

// They kept samples of the data alone.
TEST_F(RunSettingsTest, OfRunsOfEarlierVersionsAreTheSame) {
  RunSettings saved = settings(options_, text_);
  ASSERT_EQ(saved.erase("the content of the training data"), 1u);
  ASSERT_EQ(saved.erase("the content of the validation data"), 1u);
  EXPECT_EQ(saved["the training data"], "100,000 tokens (895a8125)");
  EXPECT_THAT(difference(saved, settings(options_, text_)).kept, IsEmpty());
}

// Its time may be another because it was copied: that is told, and refuses nothing.
TEST_F(RunSettingsTest, TellTheTimeOfDataThatIsComparedInPart) {
  const std::string path = folder_.write("large", std::string(8192, 'x'));
  fs::resize_file(path, (uintmax_t{1} << 28) + 1);  // a hole takes no room
  const auto settings_now = [&] {
    return settings_of(options_, data::open_text({.data = path, .validation_fraction = 0}));
  };
  const RunSettings saved = settings_now();
  EXPECT_THAT(saved.at("the content of the training data"), HasSubstr(" (of 67,108,864 tokens, spread over all)"));
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(1));
  const auto [kept, free] = difference(saved, settings_now());
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_THAT(free, IsEmpty());
  EXPECT_THAT(difference_of_files(saved, settings_now()), HasSubstr("the files of the training data: written 20"));
  EXPECT_THAT(difference_of_files(saved, saved), IsEmpty());
}

TEST_F(RunSettingsTest, AreTheSameAfterTheirNote) {
  const RunSettings saved = settings(options_, text_);
  EXPECT_EQ(settings_from_note(to_note(saved)), saved);
}

TEST_F(RunSettingsTest, RefuseANoteThatIsDamaged) {
  const std::string deep(200'000, '[');
  for (const std::string& note : {std::string(), std::string("{"), std::string("3"), std::string("[\"a\"]"), deep,
                                  std::string("{\"--seed\":1}"), std::string("{\"a\":\"1\",\"a\":\"2\"}")}) {
    EXPECT_THROW(settings_from_note(note), fsdp::Error) << note.substr(0, 20);
  }
}

TEST_F(RunSettingsTest, OfACheckpointThatKnowsLessAreNoDifference) {
  RunSettings saved = settings(options_, text_);
  saved.erase("--seed");
  RunOptions other = options_;
  other.seed = 2;
  EXPECT_THAT(in_one_line(difference(saved, settings(other, text_))), Not(HasSubstr("--seed")));
}

}  // namespace
}  // namespace trainer
