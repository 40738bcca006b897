// Every row of the table, on every way that a value takes.
#include "options/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "apps/options/option_samples.h"
#include "options/configuration_file.h"
#include "options/flags.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Problems = std::vector<std::string>;

Command a_command_of(const Row& row) {
  for (const CommandEntry& entry : kCommands) {
    if (row.is_for(entry.command)) return entry.command;
  }
  ADD_FAILURE() << row.flag << " is for no command";
  return Command::Train;
}

// Sets the row's option by its flag.
Problems set_by_flag(const Row& row, const Scalar& value, AllOptions& options) {
  Flags flags(a_command_of(row));
  std::vector<std::string> arguments = {row.flag, shown(value)};
  if (row.takes_words()) arguments = {shown(value)};
  if (row.is_switch()) arguments = {std::string(row.flag) + "=" + shown(value)};
  EXPECT_THAT(flags.parse(arguments).problems, IsEmpty());
  Problems problems;
  EXPECT_THAT(flags.apply(options, problems), ElementsAre(&row));
  return problems;
}

std::string toml_of(const Scalar& value) {
  if (const auto* number = std::get_if<double>(&value)) return std::isinf(*number) ? "inf" : shown(*number);
  const auto* text = std::get_if<std::string>(&value);
  return text ? "'''" + *text + "'''" : shown(value);
}

Problems set_by_file(const TemporaryFolder& folder, const Row& row, const Scalar& value, AllOptions& options) {
  const std::string path =
      folder.write("options.toml", "[" + std::string(row.section) + "]\n" + row.key() + " = " + toml_of(value) + "\n");
  const ConfigurationFile file = read_configuration(path, options);
  EXPECT_THAT(file.given, ElementsAre(&row));
  return file.problems;
}

TEST(OptionTable, NamesEachOptionOnceAndDescribesIt) {
  std::set<std::string> flags, paths;
  for (const Row& row : option_rows()) {
    SCOPED_TRACE(row.flag);
    EXPECT_TRUE(flags.insert(row.flag).second);
    if (row.in_file()) {
      EXPECT_TRUE(paths.insert(row.path()).second);
    }
    EXPECT_NE(std::string(row.title), "");
    EXPECT_NE(std::string(row.description), "");
    EXPECT_NE(row.commands, 0u);
    EXPECT_EQ(row_of(row.flag), &row);
  }
  EXPECT_EQ(row_of("--lr")->path(), "training.lr");
  EXPECT_EQ(row_of("--shard-group-size")->path(), "sharding.shard_group_size");
  EXPECT_EQ(row_of("--none"), nullptr);
}

TEST(OptionTable, EveryDefaultIsAllowed) {
  for (const Row& row : option_rows()) {
    SCOPED_TRACE(row.flag);
    const std::optional<Scalar> value = value_of(row, AllOptions());
    AllOptions options;
    if (value) {
      EXPECT_EQ(assign(row, options, *value), "");
    }
  }
}

TEST(OptionTable, EveryOptionIsReadFromItsFlag) {
  for (const Row& row : option_rows()) {
    SCOPED_TRACE(row.flag);
    AllOptions options;
    EXPECT_NE(value_of(row, options), good_value(row));
    EXPECT_THAT(set_by_flag(row, good_value(row), options), IsEmpty());
    EXPECT_EQ(value_of(row, options), good_value(row));
    reset(row, options);
    EXPECT_EQ(value_of(row, options), value_of(row, AllOptions()));
  }
}

TEST(OptionTable, EveryOptionIsReadFromAFile) {
  const TemporaryFolder folder;
  for (const Row& row : option_rows()) {
    if (!row.in_file()) continue;
    SCOPED_TRACE(row.flag);
    AllOptions options;
    EXPECT_THAT(set_by_file(folder, row, good_value(row), options), IsEmpty());
    EXPECT_EQ(value_of(row, options), good_value(row));
  }
}

TEST(OptionTable, EveryOptionOfTrainComesBackFromWhatIsSaved) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const Row& row : option_rows()) {
    if (!row.in_file() || !row.is_for(Command::Train)) continue;
    for (const bool is_chosen : {true, false}) {
      SCOPED_TRACE(row.flag);
      AllOptions options, found;
      options.run = "runs/first";
      ASSERT_EQ(assign(row, options, good_value(row)), "");
      if (is_chosen) options.chosen = {.flags = {row.flag}, .relative = {row.flag}};
      if (row.flag == std::string("--ranks") && !is_chosen) continue;  // a launcher's then
      folder.write(options.run + "/config.toml", configuration_toml(options));
      EXPECT_THAT(read_configuration(options.run + "/config.toml", found).problems, IsEmpty());
      EXPECT_EQ(value_of(row, found), is_chosen ? good_value(row) : value_of(row, AllOptions()));
    }
  }
  std::filesystem::current_path(before);
}

TEST(OptionTable, EveryOptionRefusesAnotherType) {
  const TemporaryFolder folder;
  for (const Row& row : option_rows()) {
    SCOPED_TRACE(row.flag);
    AllOptions options;
    const Scalar wrong = value_of_wrong_type(row);
    const bool takes_any_text = std::holds_alternative<double>(wrong);  // which a flag always is
    if (!takes_any_text) {
      EXPECT_THAT(set_by_flag(row, wrong, options), ElementsAre(StartsWith(row.flag)));
    }
    if (row.in_file()) {
      EXPECT_THAT(set_by_file(folder, row, wrong, options), ElementsAre(HasSubstr(row.path() + ": ")));
    }
    EXPECT_EQ(value_of(row, options), value_of(row, AllOptions()));
  }
}

TEST(OptionTable, EveryOptionRefusesWhatIsOutOfItsRange) {
  const TemporaryFolder folder;
  for (const Row& row : option_rows()) {
    for (const Scalar& bad : bad_values(row)) {
      SCOPED_TRACE(row.flag + (" " + shown(bad)));
      AllOptions options;
      EXPECT_THAT(set_by_flag(row, bad, options), ElementsAre(AllOf(StartsWith(row.flag), HasSubstr("it must be"))));
      if (row.in_file()) {
        EXPECT_THAT(set_by_file(folder, row, bad, options),
                    ElementsAre(AllOf(HasSubstr("options.toml:2:"), HasSubstr(row.path() + " is "))));
      }
      EXPECT_EQ(value_of(row, options), value_of(row, AllOptions()));
    }
  }
}

}  // namespace
}  // namespace trainer
