// The manual page and the completions that fsdp-convert prints of itself.
#include <gmock/gmock.h>

#include <sstream>

#include "apps/command.h"
#include "apps/manual/shells.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

Ending run_convert(const std::string& arguments) { return run_command(FSDP_CONVERT_PROGRAM " " + arguments); }

// As the help lists them, but -h.
std::vector<std::string> flags_of_help() {
  std::istringstream lines(run_convert("--help").output);
  std::vector<std::string> flags = {"--help"};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  --")) flags.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return flags;
}

TEST(ConvertManual, IsSetWithoutWarningsAndHasEveryOption) {
  if (run_command("groff --version").code != 0) {
    FSDP_SKIP_TEST("groff is not there: scripts/setup --tests installs it");
  }
  const TemporaryFolder folder;
  const std::string groff = "groff -man -ww ", page = folder.write("page.1", run_convert("man").output);
  EXPECT_EQ(run_command(groff + "-z -Tutf8 " + page).output, "");
  const Ending ending = run_command(groff + "-Tascii -P-cbou " + page);
  ASSERT_EQ(ending.code, 0);
  size_t at = 0;
  for (const char* title :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXAMPLES", "FORMATS", "EXIT STATUS"}) {
    at = ending.output.find(std::string("\n") + title + "\n", at);
    ASSERT_NE(at, std::string::npos) << title;
  }
  const std::vector<std::string> flags = flags_of_help();
  EXPECT_EQ(flags.size(), 11u);
  for (const std::string& flag : flags) EXPECT_THAT(ending.output, HasSubstr("\n       " + flag));
  for (const char* part :
       {"fsdp-convert - converts checkpoints", "fsdp-convert --list SOURCE\n", "fsdp-convert completion SHELL\n",
        "--max-shard-size BYTES", "SHELL  (completion)", "a Hugging Face folder, a model alone."}) {
    EXPECT_THAT(ending.output, HasSubstr(part));
  }
}

TEST(ConvertCompletion, OffersInBashWhatMayFollow) {
  const BashCompleter bash("fsdp-convert", "_fsdp_convert", run_convert("completion bash").output,
                           {"a model.pt", "step-300/model"});
  EXPECT_THAT(bash.completed("''"), UnorderedElementsAre("completion", "man", "a model.pt", "step-300"));
  EXPECT_THAT(bash.completed("st"), ElementsAre("step-300"));
  EXPECT_THAT(bash.completed("step-300 a"), ElementsAre("a model.pt"));
  EXPECT_THAT(bash.completed("--list st"), ElementsAre("step-300"));
  EXPECT_THAT(bash.completed("step-300 --"), UnorderedElementsAreArray(flags_of_help()));
  EXPECT_THAT(bash.completed("step-300 model --to ''"), UnorderedElementsAre("fsdp", "hf", "pt", "archive", "dcp"));
  EXPECT_THAT(bash.completed("step-300 model --dtype = b"), ElementsAre("bf16"));  // --dtype=b
  EXPECT_THAT(bash.completed("step-300 model --max-shard-size ''"), IsEmpty());
  EXPECT_THAT(bash.completed("completion ''"), UnorderedElementsAre("bash", "zsh", "fish"));
}

TEST(ConvertCompletion, IsReadByZshAndFish) {
  const std::string zsh = run_convert("completion zsh").output, fish = run_convert("completion fish").output;
  EXPECT_TRUE(zsh.starts_with("#compdef fsdp-convert\n"));
  EXPECT_THAT(zsh, AllOf(HasSubstr("'--to=[The format of TARGET]:FORMAT:(fsdp hf pt archive dcp)'"),
                         HasSubstr("'*--buffer=["), HasSubstr("'2:TARGET:_files'"), HasSubstr("'--force[")));
  EXPECT_THAT(fish, AllOf(HasSubstr("-n '__fsdp_convert_is convert' -F\n"),
                          HasSubstr(" -l force -d 'Replaces an existing TARGET"),
                          HasSubstr("-n '__fsdp_convert_is completion' -a 'bash zsh fish'\n")));
  for (const std::string& flag : flags_of_help()) EXPECT_THAT(fish, HasSubstr(" -l " + flag.substr(2) + " "));
  expect_readable("zsh", zsh);
  expect_readable("fish", fish);
}

TEST(ConvertManual, IsAskedForInFewWords) {
  const Ending none = run_convert("completion"), wrong = run_convert("completion tcsh zsh"),
               more = run_convert("man x");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("no shell is named: give bash, zsh or fish."));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, AllOf(HasSubstr("SHELL is 'tcsh'; it must be one of bash, zsh, fish."),
                                  HasSubstr("'zsh' is one word too many: SHELL is given already.")));
  EXPECT_EQ(more.code, 2);
  EXPECT_THAT(more.output, HasSubstr("'x' is one word too many: man takes none."));
  EXPECT_EQ(run_convert("man --help").output, run_convert("--help").output);
  EXPECT_THAT(run_convert("./man x.pt").output, HasSubstr("SOURCE './man' is not there."));
}

}  // namespace
