// Paths in files, and from which folder they are seen.
#include "options/option_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "options/command_line.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// In a folder of its own, which is the working folder.
class OptionPaths : public testing::Test {
 protected:
  OptionPaths() {
    fs::current_path(folder_.path());
    for (const char* folder : {"runs/first", "elsewhere"}) fs::create_directories(folder);
  }
  ~OptionPaths() override { fs::current_path(before_); }

  // The configuration of a run in runs/first that this command line begins.
  std::string saved(std::vector<std::string> arguments) {
    CommandLine line = parse_command_line(std::move(arguments));
    EXPECT_THAT(line.problems, IsEmpty());
    if (line.options.run.empty()) line.options.run = "runs/first";
    const std::string text = configuration_toml(line.options);
    folder_.write("runs/first/config.toml", text);
    return text;
  }

  fs::path before_ = fs::current_path();
  TemporaryFolder folder_;
};

TEST_F(OptionPaths, AreAllThatNameFilesAndFolders) {
  const std::set<std::string> units = {"PATH", "FILE", "FOLDER", "TOKENIZER", "MODEL", "RUN"};
  for (const Row& row : option_rows()) {
    if (!row.in_file()) continue;
    EXPECT_EQ(names_relative_path(row, "some.file"), units.contains(row.unit)) << row.flag;
    EXPECT_FALSE(names_relative_path(row, "/some.file")) << row.flag;
  }
  EXPECT_FALSE(names_relative_path(*row_of("--tokenizer"), "train:512"));
  EXPECT_FALSE(names_relative_path(*row_of("--model"), "llama-mini"));
  EXPECT_FALSE(names_relative_path(*row_of("--resume"), "never"));
  EXPECT_TRUE(names_relative_path(*row_of("--text"), "/a:3,b:1"));
}

TEST_F(OptionPaths, AreSeenFromOtherFolders) {
  const fs::path run = folder_.path() / "runs/first";
  for (const auto& [path, seen] : std::vector<std::pair<std::string, std::string>>{
           {"text.txt", "../../text.txt"}, {"runs/first/a", "a"}, {"code/", "../../code/"}, {".", "../.."}}) {
    EXPECT_EQ(path_seen_from(run, path), seen);
    EXPECT_EQ(path_from(run, seen), path);
  }
  EXPECT_EQ(path_from(run, "/a/b"), "/a/b");
  EXPECT_EQ(path_from("/some/folder", "../text.txt"), "/some/text.txt");
  fs::current_path("/");
  EXPECT_EQ(path_from("/some/folder", "../text.txt"), "/some/text.txt");
  fs::current_path(folder_.path());
  EXPECT_EQ(path_from(folder_.path().parent_path(), "other.txt"),
            (folder_.path().parent_path() / "other.txt").string());
}

TEST_F(OptionPaths, OfARunGoWithIt) {
  const std::string text = saved({"--text", "a.txt:3,code/:1", "--run", "runs/first", "--validation", "/data/val.txt",
                                  "--tokenizer", "train:512", "--checkpoint", "runs/zero/step-3"});
  EXPECT_THAT(text, AllOf(HasSubstr("\ntext = \"../../a.txt:3,../../code/:1\"\n"), HasSubstr("\nrun = \".\"\n"),
                          HasSubstr("\nvalidation = \"/data/val.txt\"\n"), HasSubstr("\ntokenizer = \"train:512\"\n"),
                          HasSubstr("\ncheckpoint = \"../zero/step-3\"\n")));
  const CommandLine here = parse_command_line({"--config", "runs/first/config.toml"});
  EXPECT_THAT(here.problems, IsEmpty());
  EXPECT_EQ(here.options.text, "a.txt:3,code/:1");
  EXPECT_EQ(here.options.run, "runs/first");
  EXPECT_EQ(here.options.checkpoint, "runs/zero/step-3");
  fs::current_path("elsewhere");
  const CommandLine there = parse_command_line({"--config", "../runs/first/config.toml"});
  EXPECT_EQ(there.options.text, (folder_ / "a.txt") + ":3," + (folder_ / "code/") + ":1");
  EXPECT_EQ(there.options.run, folder_ / "runs/first");
  EXPECT_EQ(there.options.config_paths, folder_ / "runs/first");
  EXPECT_EQ(configuration_toml(there.options), text);  // as it was, from wherever it goes on
}

TEST_F(OptionPaths, OfARunThatWasNamedFromElsewhereStay) {
  EXPECT_THAT(saved({"--text", "a.txt", "--run", folder_ / "runs/first"}),
              AllOf(HasSubstr("\ntext = \"" + (folder_ / "a.txt") + "\"\n"), HasSubstr("\nrun = \".\"\n")));
}

TEST_F(OptionPaths, OfAFreshRunAreChosenWithoutItsName) {
  const std::string text = saved({"--text", "a.txt"});
  EXPECT_THAT(text, AllOf(HasSubstr("\ntext = \"../../a.txt\"\n"), HasSubstr("\n# run = \".\"\n")));
  EXPECT_EQ(parse_command_line({"--config", "runs/first/config.toml"}).options.run, "");
}

TEST_F(OptionPaths, InOtherFilesAreRelativeToTheWorkingFolder) {
  folder_.write("elsewhere/own.toml", "[data]\ntext = 'a.txt'\n");
  const CommandLine line = parse_command_line({"--config", "elsewhere/own.toml"});
  EXPECT_EQ(line.options.text, "a.txt");
  EXPECT_EQ(line.options.config_paths, folder_.path());
  folder_.write("elsewhere/own.toml", "paths_relative_to = 'file'\n[data]\ntext = 'a.txt'\ntokenizer = 'bytes'\n");
  EXPECT_EQ(parse_command_line({"--config", "elsewhere/own.toml"}).options.text, "elsewhere/a.txt");
  EXPECT_EQ(parse_command_line({"--config", "elsewhere/own.toml", "--text", "b.txt"}).options.text, "b.txt");
}

// What followed from the steps follows from other steps anew.
TEST_F(OptionPaths, AreSavedWithoutWhatFollows) {
  saved({"--text", "a.txt", "--steps", "50", "--schedule", "wsd", "--optimizer", "muon", "--lr", "0.01"});
  const CommandLine more =
      parse_command_line({"--config", "runs/first/config.toml", "--steps", "1000", "--lr", "0.02"});
  EXPECT_THAT(more.problems, IsEmpty());
  EXPECT_EQ(more.options.warmup, 100);
  EXPECT_EQ(more.options.decay_steps, 100);
  EXPECT_EQ(more.options.muon_lr, 0.02);
  EXPECT_THAT(parse_command_line({"--config", "runs/first/config.toml", "--schedule", "cosine"}).problems, IsEmpty());
  EXPECT_EQ(parse_command_line({"--config", "runs/first/config.toml", "--model", "llama-tiny"}).options.model.width,
            parse_command_line({"--text", "a.txt", "--model", "llama-tiny"}).options.model.width);
}

TEST_F(OptionPaths, NameTheSameFilesFromAnyFolder) {
  EXPECT_TRUE(names_same_files(*row_of("--text"), "a/b.txt:3,code/:1", "/x/b.txt:3,../code:1"));
  EXPECT_FALSE(names_same_files(*row_of("--text"), "a/b.txt:3,code/:1", "a/b.txt:2,code/:1"));
  EXPECT_FALSE(names_same_files(*row_of("--text"), "a.txt", "b.txt"));
  EXPECT_TRUE(names_same_files(*row_of("--data"), ".", folder_.path()));
  EXPECT_FALSE(names_same_files(*row_of("--schedule"), "wsd", "a/wsd"));
}

// Whichever option names it, of several sources, too.
TEST_F(OptionPaths, OfMoreBytesThanTheSystemTakesAreRefused) {
  const std::string path(5000, 'a');
  for (const std::string flag : {"--text", "--validation", "--run", "--checkpoint", "--tokenizer", "--init-from"}) {
    EXPECT_THAT(parse_command_line({flag, path}).problems,
                testing::Contains(flag + " is a path of 5000 bytes, and the system takes 4095. Name a shorter one."));
  }
  EXPECT_THAT(parse_command_line({"report", path}).problems, testing::Contains(HasSubstr("is a path of 5000 bytes")));
  EXPECT_THAT(problem_of_length(std::string(4095, 'a')), IsEmpty());
}

}  // namespace
}  // namespace trainer
