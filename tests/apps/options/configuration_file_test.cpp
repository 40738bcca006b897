#include "options/configuration_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ConfigurationFileTest : public testing::Test {
 protected:
  // Without the name of the file and the colon after it.
  std::vector<std::string> problems_of(const std::string& toml) {
    const std::string path = folder_.write("run.toml", toml);
    std::vector<std::string> problems = read_configuration(path, options_).problems;
    for (std::string& problem : problems) {
      EXPECT_THAT(problem, StartsWith(path + ":"));
      problem.erase(0, path.size() + 1);
    }
    return problems;
  }

  TemporaryFolder folder_;
  AllOptions options_;
};

TEST_F(ConfigurationFileTest, MayBeEmpty) { EXPECT_THAT(problems_of(""), IsEmpty()); }

TEST_F(ConfigurationFileTest, TakesWholeNumbersForNumbers) {
  EXPECT_THAT(problems_of("[training]\nlr = 1\nclip = 2.5\n"), IsEmpty());
  EXPECT_EQ(options_.lr, 1.0);
  EXPECT_EQ(options_.clip, 2.5);
}

TEST_F(ConfigurationFileTest, NamesTheNearestKey) {
  EXPECT_THAT(problems_of("[training]\nwarm_up = 3\n"),
              ElementsAre("2:1: 'warm_up' is no key of [training]; did you mean warmup?"));
  EXPECT_THAT(problems_of("[model]\nlr = 3\n"),
              ElementsAre("2:1: 'lr' is no key of [model]; did you mean [training] lr?"));
  EXPECT_THAT(problems_of("[model]\nnonsense = 3\n"), ElementsAre("2:1: 'nonsense' is no key of [model]."));
  EXPECT_THAT(problems_of("lr = 3\n"),
              ElementsAre("1:1: 'lr' stands outside of every section; did you mean [training] lr?"));
}

TEST_F(ConfigurationFileTest, NamesTheNearestSection) {
  EXPECT_THAT(problems_of("[trainig]\nlr = 3\nsteps = 4\n"),
              ElementsAre(HasSubstr("[trainig] is no section of this program; did you mean [training]?")));
  EXPECT_THAT(problems_of("[nothing]\n"), ElementsAre(HasSubstr("[nothing] is no section of this program.")));
}

TEST_F(ConfigurationFileTest, FindsEverythingInTheOrderOfTheLines) {
  EXPECT_THAT(problems_of("[training]\nsteps = 1.5\nbatch = 0\nadam = 1\nlr = [1]\n[data]\ntext = 3\n"),
              ElementsAre("2:9: training.steps: 1.5 is not a whole number.",
                          "3:9: training.batch is 0; it must be at least 1.", "4:1: 'adam' is no key of [training].",
                          "5:6: training.lr is a list, a table or a time; it must be one value.",
                          "7:8: data.text: 3 is not a text; put it in quotes."));
  EXPECT_EQ(options_.steps, 300);
}

TEST_F(ConfigurationFileTest, ShowsNumbersWithAPointAsSuch) {
  EXPECT_THAT(problems_of("[output]\nlog_every = 1.0\n"
                          "[training]\nsteps = 1e3\nbatch = 1e19\nseed = -2.0\nwarmup = nan\n"),
              ElementsAre("2:13: output.log_every is 1.0; it must be a whole number without a point: 1.",
                          "4:9: training.steps is 1000.0; it must be a whole number without a point: 1000.",
                          "5:9: training.batch is 1e+19; it must be at most 65536.",
                          "6:8: training.seed is -2; it must be at least 0.",
                          "7:10: training.warmup: nan is not a whole number."));
}

TEST_F(ConfigurationFileTest, SaysWhereItIsNoToml) {
  EXPECT_THAT(problems_of("[training]\nlr = \n"), ElementsAre(StartsWith("2:")));
  EXPECT_THAT(problems_of("[training]\nlr = 1\nlr = 2\n"), ElementsAre(StartsWith("3:")));
  EXPECT_THAT(problems_of("[data]\ntext = '\xff\xfe'\n"), ElementsAre(StartsWith("2:")));
}

TEST_F(ConfigurationFileTest, CannotBeAFolder) {
  EXPECT_THAT(read_configuration(folder_.path().string(), options_).problems,
              ElementsAre(HasSubstr("is not a regular file.")));
}

TEST_F(ConfigurationFileTest, DeepKeysAreAProblem) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_THAT(problems_of("[training]\n" + key + " = 1\n"),
              ElementsAre("2:130: Keys, lists and tables nest deeper than 64 levels."));
}

TEST_F(ConfigurationFileTest, RefusesAnotherKindOfPaths) {
  EXPECT_THAT(problems_of("paths_relative_to = 'here'\n"),
              ElementsAre("1:21: paths_relative_to must be \"file\" or \"working-folder\"."));
  EXPECT_THAT(problems_of("paths_relative_to = 3\n"), ElementsAre(HasSubstr("must be \"file\" or")));
  EXPECT_THAT(problems_of("path_relative_to = 'file'\n"),
              ElementsAre(HasSubstr("stands outside of every section; did you mean paths_relative_to?")));
}

AllOptions chosen(AllOptions options, std::set<std::string> flags) {
  options.chosen.flags = std::move(flags);
  return options;
}

TEST(ConfigurationToml, HasSectionsAndNoOptionTwice) {
  const std::string text = configuration_toml(chosen(AllOptions(), {"--lr", "--eps", "--prompt"}));
  for (const char* part :
       {"\n[ranks]\n", "\n[training]\n", "\nlr = 0.001\n", "\n# clip = 1.0\n", "\neps = 1e-08\n", "\n# steps = 300\n",
        "\n# strategy = \"full-shard\"\n", "\nprompt = \"\\u000A\"\n", "\npaths_relative_to = \"file\"\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(text.find(part), text.rfind(part));
  }
  EXPECT_THAT(text, AllOf(Not(HasSubstr("epochs")), Not(HasSubstr("\ncheckpoint =")), Not(HasSubstr(" checkpoint =")),
                          Not(HasSubstr("dry_run"))));
}

TEST(ConfigurationToml, LeavesOutWhatFollows) {
  AllOptions options;
  options.epochs = 2;
  options.target_tokens_per_step = 4096;
  options.warmup = 60;
  const std::string text =
      configuration_toml(chosen(options, {"--epochs", "--steps", "--tokens-per-step", "--micro-batches"}));
  EXPECT_THAT(text, AllOf(HasSubstr("\nepochs = 2.0"), HasSubstr("\ntokens_per_step = 4096")));
  EXPECT_THAT(text, AllOf(HasSubstr("\n# steps ="), HasSubstr("\n# micro_batches ="), HasSubstr("\n# warmup = 60\n")));
}

TEST(ConfigurationToml, HasTheRanksOfALauncher) {
  AllOptions options;
  EXPECT_THAT(configuration_toml(options), HasSubstr("\n# ranks = 1\n"));
  options.ranks = 4;
  EXPECT_THAT(configuration_toml(options), HasSubstr("\nranks = 4\n"));
}

TEST(ConfigurationToml, SaysWhatItCannotHold) {
  AllOptions options;
  options.prompt = "\xff";
  options.chosen.flags = {"--prompt"};
  const TemporaryFolder folder;
  const std::string text = configuration_toml(options);
  EXPECT_THAT(text, HasSubstr("# prompt: not UTF-8, so it cannot be here; give --prompt\n"));
  EXPECT_THAT(read_configuration(folder.write("config.toml", text), options).problems, IsEmpty());
}

}  // namespace
}  // namespace trainer
