// fsdp-plan as people start it.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "apps/command.h"
#include "apps/fsdp-plan/run_plan.h"
#include "apps/manual/shells.h"
#include "files/json.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST(PlanProgram, PrintsTheTextbook) {
  const Ending ending = run_plan("textbook");
  EXPECT_EQ(ending.code, 0);
  EXPECT_THAT(ending.output, StartsWith("Bytes per parameter\n"));
  EXPECT_THAT(ending.output, HasSubstr("\nZeRO: memory\n"));
  std::istringstream lines(ending.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(PlanProgram, PrintsTheTextbookAsJson) {
  const Ending ending = run_plan("textbook --json");
  EXPECT_EQ(ending.code, 0);
  const auto json = fsdp::files::parse_json(ending.output, "textbook");
  EXPECT_EQ(json.at("topics")[0].at("title"), "Bytes per parameter");
  EXPECT_EQ(json.at("topics")[0].at("rows")[0].at("published"), 2);
}

// LibTorch takes a good part of a second to load.
TEST(PlanProgram, IsNotLinkedWithLibTorch) {
  std::ifstream file(FSDP_PLAN_PROGRAM, std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(program.size(), 100'000u);
  for (const char* library : {"libtorch_cpu.so", "libtorch.so", "libc10.so"})
    EXPECT_THAT(program.find(library), std::string::npos) << library;
}

TEST(PlanProgram, HelpsWithEachCommand) {
  const Ending ending = run_plan("--help");
  EXPECT_EQ(ending.code, 0);
  EXPECT_THAT(ending.output, AllOf(StartsWith("Usage: fsdp-plan MODEL [OPTIONS]\n       fsdp-plan COMMAND [OPTIONS]\n"),
                                   HasSubstr("\n  textbook "), HasSubstr("\n  completion "), HasSubstr("\n  man "),
                                   HasSubstr("\n  --version ")));
  EXPECT_EQ(run_plan("-h").output, ending.output);
  const Ending textbook = run_plan("textbook --help");
  EXPECT_EQ(textbook.code, 0);
  EXPECT_THAT(textbook.output, AllOf(StartsWith("Usage: fsdp-plan textbook [OPTIONS]\n"), HasSubstr("\n  --json ")));
  EXPECT_THAT(run_plan("completion -h").output, StartsWith("Usage: fsdp-plan completion SHELL\n"));
  EXPECT_THAT(run_plan("--version").output, StartsWith("fsdp-plan 0."));
}

TEST(PlanProgram, RefusesWrongWordsAllAtOnce) {
  const Ending none = run_plan("");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("no model and no command is given, expected a model or one of search, compare, "
                                     "scaling, calibrate, textbook, completion, man."));
  const Ending command = run_plan("textbok");
  EXPECT_EQ(command.code, 2);
  EXPECT_THAT(command.output,
              AllOf(HasSubstr("'textbok' is no command of this program"), HasSubstr("did you mean textbook?")));
  const Ending options = run_plan("textbook --jsn --json=x more");
  EXPECT_EQ(options.code, 2);
  EXPECT_EQ(options.output,
            "fsdp-plan: 3 problems\n"
            "  '--jsn' is no option of fsdp-plan textbook; did you mean --json?\n"
            "  --json takes no value.\n"
            "  'more' is one word too many: textbook takes none.\n"
            "fsdp-plan textbook --help lists all options.\n");
  EXPECT_THAT(run_plan("completion").output, HasSubstr("SHELL is missing: give one of bash, zsh, fish."));
  EXPECT_THAT(run_plan("completion tcsh zsh").output,
              AllOf(HasSubstr("SHELL is 'tcsh'; it must be one of bash, zsh, fish."),
                    HasSubstr("'zsh' is one word too many: SHELL is given already.")));
}

TEST(PlanManual, IsSetWithoutWarnings) {
  if (run_command("groff --version").code != 0) {
    FSDP_SKIP_TEST("groff is not there: scripts/setup --tests installs it");
  }
  const TemporaryFolder folder;
  const std::string groff = "groff -man -ww ", page = folder.write("page.1", run_plan("man").output);
  EXPECT_EQ(run_command(groff + "-z -Tutf8 " + page).output, "");
  const Ending ending = run_command(groff + "-Tascii -P-cbou " + page);
  ASSERT_EQ(ending.code, 0);
  for (const char* part : {"NAME", "SYNOPSIS", "COMMANDS", "OPTIONS", "EXAMPLES", "EXIT STATUS", "fsdp-plan textbook",
                           "--json", "SHELL  (completion)"}) {
    EXPECT_THAT(ending.output, HasSubstr(part));
  }
}

TEST(PlanCompletion, OffersCommandsAndTheirOptions) {
  const BashCompleter bash("fsdp-plan", "_fsdp_plan", run_plan("completion bash").output, {"model"});
  EXPECT_THAT(bash.completed("''"),
              UnorderedElementsAre("search", "compare", "scaling", "calibrate", "textbook", "completion", "man"));
  EXPECT_THAT(bash.completed("te"), ElementsAre("textbook"));
  EXPECT_THAT(bash.completed("textbook --"), UnorderedElementsAre("--help", "--json"));
  EXPECT_THAT(bash.completed("completion ''"), UnorderedElementsAre("bash", "zsh", "fish"));
  const std::string zsh = run_plan("completion zsh").output, fish = run_plan("completion fish").output;
  EXPECT_TRUE(zsh.starts_with("#compdef fsdp-plan\n"));
  EXPECT_THAT(fish, HasSubstr(" -l json "));
  expect_readable("zsh", zsh);
  expect_readable("fish", fish);
}

TEST(PlanProgram, SaysSoWhereOutputIsLost) {
  const Ending ending = run_command("sh -c '" FSDP_PLAN_PROGRAM " textbook > /dev/full'");
  EXPECT_EQ(ending.code, 1);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("fsdp-plan"), HasSubstr("No space left on device")));
}

}  // namespace
