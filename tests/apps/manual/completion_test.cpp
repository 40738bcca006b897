// Completion in the shell itself, where it is bash; of the others the script is read.
#include "manual/completion.h"
#include "manual/train_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/manual/shells.h"
#include "manual/value_hints.h"

namespace trainer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;
using Texts = std::vector<std::string>;

class BashCompletion : public testing::Test {
 protected:
  Texts completed(const std::string& words) const { return completer_.completed(words); }

  BashCompleter completer_{
      "fsdp-train", "_fsdp_train", bash_completion(train_program()), {"a text.txt", "model.toml", "run-1/config.toml"}};
};

Texts flags_known_to(Command command) {
  Texts flags = {"--help"};
  if (command == Command::Train) flags.emplace_back("--version");
  for (const Row& row : option_rows()) {
    if (row.is_for(command) && !row.takes_words()) flags.emplace_back(row.flag);
  }
  return flags;
}

TEST_F(BashCompletion, OffersCommands) {
  Texts words = {"help"};
  for (const CommandEntry& entry : kCommands) words.emplace_back(entry.word);
  EXPECT_THAT(completed("''"), UnorderedElementsAreArray(words));
  EXPECT_THAT(completed("re"), ElementsAre("report"));
  EXPECT_THAT(completed("help sa"), ElementsAre("sample"));
}

TEST_F(BashCompletion, OffersTheFlagsOfEachCommandAndNoOthers) {
  for (const CommandEntry& entry : kCommands) {
    EXPECT_THAT(completed(entry.word + std::string(" --")), UnorderedElementsAreArray(flags_known_to(entry.command)));
  }
  EXPECT_THAT(completed("--"), UnorderedElementsAreArray(flags_known_to(Command::Train)));
  EXPECT_THAT(completed("--ranks 2 --st"),
              UnorderedElementsAre("--stages", "--stages-per-rank", "--steps", "--strategy"));
  EXPECT_THAT(completed("sample run-1 --tem"), ElementsAre("--temperature"));
}

TEST_F(BashCompletion, OffersTheValuesThatAnOptionMayHave) {
  for (const Row& row : option_rows()) {
    const auto* words = std::get_if<Words>(&row.check);
    if (words == nullptr || row.takes_words()) continue;
    EXPECT_THAT(completed(row.flag + std::string(" ''")), UnorderedElementsAreArray(*words)) << row.flag;
  }
  EXPECT_THAT(completed("--strategy = shard-g"), ElementsAre("shard-grad-op"));  // --strategy=shard-g
  EXPECT_THAT(completed("--strategy ="), Contains("full-shard"));
  EXPECT_THAT(completed("sample run-1 --tie-embeddings ''"), UnorderedElementsAre("true", "false"));
  EXPECT_THAT(completed("--model gpt2-m"), UnorderedElementsAre("gpt2-medium", "gpt2-mini"));
  EXPECT_THAT(completed("--resume a"), ElementsAre("auto"));
}

TEST_F(BashCompletion, OffersFilesAndFoldersWhereTheyAreMeant) {
  EXPECT_THAT(completed("--text ''"), UnorderedElementsAre("a text.txt", "model.toml", "run-1"));
  EXPECT_THAT(completed("--text a"), ElementsAre("a text.txt"));
  EXPECT_THAT(completed("--model mo"), ElementsAre("model.toml"));
  EXPECT_THAT(completed("--run ''"), ElementsAre("run-1"));
  EXPECT_THAT(completed("sample ''"), ElementsAre("run-1"));
  EXPECT_THAT(completed("report run-1 ''"), ElementsAre("run-1"));
  EXPECT_THAT(completed("--steps ''"), IsEmpty());
}

TEST_F(BashCompletion, OffersTheShells) {
  EXPECT_THAT(completed("completion ''"), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(completed("completion z"), ElementsAre("zsh"));
}

TEST(ZshCompletion, HasEveryOptionInItsCommandWithItsValues) {
  const std::string script = zsh_completion(train_program());
  EXPECT_TRUE(script.starts_with("#compdef fsdp-train\n"));
  for (const CommandEntry& entry : kCommands) {
    const size_t begin = script.find(std::string("    ") + entry.word + ")\n");
    ASSERT_NE(begin, std::string::npos) << entry.word;
    const std::string part = script.substr(begin, script.find(";;", begin) - begin);
    for (const Row& row : option_rows()) {
      if (row.takes_words()) continue;
      const std::string option = "'" + std::string(row.flag) + (row.is_switch() ? "[" : "=[");
      EXPECT_EQ(part.find(option) != std::string::npos, row.is_for(entry.command)) << entry.word << " " << row.flag;
    }
  }
  for (const char* part :
       {"'--optimizer=[Optimizer]:OPTIMIZER:(adamw muon)'", "'--text=[Learns from this text]:PATH:_files'",
        "'--dry-run[", ":FOLDER:_files -/'", "'1:SHELL:(bash zsh fish)'", "'*:RUN:_files -/'"}) {
    EXPECT_THAT(script, HasSubstr(part));
  }
  expect_readable("zsh", script);
}

TEST(FishCompletion, HasEveryOptionForItsCommands) {
  const std::string script = fish_completion(train_program());
  for (const Row& row : option_rows()) {
    if (row.takes_words()) continue;
    EXPECT_THAT(script, HasSubstr(std::string(" -l ") + (row.flag + 2) + " ")) << row.flag;
  }
  for (const char* part : {"-n '__fsdp_train_is train' -l optimizer -x -a 'adamw muon' -d 'Optimizer'\n",
                           "-n '__fsdp_train_is train sample' -l checkpoint -x -a '(__fish_complete_directories)' -d",
                           "-n '__fsdp_train_is train prepare' -l text -r -F -d 'Learns from this text'\n",
                           "-n '__fsdp_train_is completion' -a 'bash zsh fish'\n", " -l dry-run -d 'Prints the size"}) {
    EXPECT_THAT(script, HasSubstr(part));
  }
  expect_readable("fish", script);
}

// A program without a word for help, whose first word is a file or the command `show`.
Program small_program() {
  return {.name = "to-small",
          .commands = {{.word = "make",
                        .words = {{.name = "FROM", .hints = {.paths = Paths::Files}}, {.name = "TO"}},
                        .typing = CommandWord::NeverTyped},
                       {.word = "show", .summary = "Shows all. Or less."}},
          .options = {{.flag = "--kind",
                       .placeholder = "KIND",
                       .text = "Kind [none].",
                       .hints = {.words = {"one", "two"}},
                       .commands = {"make"},
                       .takes_several = true}}};
}

TEST(Completion, KnowsCommandsThatAreNotTyped) {
  const BashCompleter bash("to-small", "_to_small", bash_completion(small_program()), {"a file"});
  EXPECT_THAT(bash.completed("''"), UnorderedElementsAre("show", "a file"));
  EXPECT_THAT(bash.completed("'a file' --"), UnorderedElementsAre("--help", "--version", "--kind"));
  EXPECT_THAT(bash.completed("show --"), ElementsAre("--help"));
  const std::string zsh = zsh_completion(small_program()), fish = fish_completion(small_program());
  for (const char* part : {"'*--kind=[Kind]:KIND:(one two)'", "'1:FROM:_files'", "'2:TO:'",
                           "    'show:Shows all'\n  )\n", "    _files && failed=0\n"}) {
    EXPECT_THAT(zsh, HasSubstr(part));
  }
  for (const char* part : {"set -g __to_small_commands show\n", "complete -c to-small -n '__to_small_is make' -F\n",
                           "-n '__to_small_is make' -l kind -x -a 'one two' -d 'Kind'\n"}) {
    EXPECT_THAT(fish, HasSubstr(part));
  }
  for (const std::string& script : {zsh, fish}) EXPECT_THAT(script, Not(HasSubstr("help:")));
  expect_readable("zsh", zsh);
  expect_readable("fish", fish);
}

TEST(Completion, IsOfTheShellThatIsNamed) {
  const Program& train = train_program();
  EXPECT_EQ(completion_script("bash", train), bash_completion(train));
  EXPECT_EQ(completion_script("zsh", train), zsh_completion(train));
  EXPECT_EQ(completion_script("fish", train), fish_completion(train));
  EXPECT_EQ(completion_script("fish", small_program()), fish_completion(small_program()));
}

TEST(Completion, DescribesInAFewWords) {
  EXPECT_EQ(short_description("Number of layers."), "Number of layers");
  EXPECT_EQ(short_description("Learns from this text: a file."), "Learns from this text");
  EXPECT_EQ(short_description("Passes; the steps follow. More."), "Passes");
  EXPECT_EQ(short_description("Scale, 0.5 of it. More."), "Scale, 0.5 of it");
  EXPECT_EQ(short_description("Kind [as it is; else none]."), "Kind");
  for (const ProgramOption& option : train_program().options) {
    const std::string text = short_description(option.text);
    EXPECT_LE(text.size(), 110u) << option.flag;
    EXPECT_THAT(text, Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace trainer
