// What the program says of itself and of the machine that it is on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "apps/fsdp-train/train_program.h"
#include "manual/completion.h"
#include "manual/man_page.h"
#include "manual/train_program.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;

Ending run_doctor_with(const std::string& before) { return run_command(before + " " FSDP_TRAIN_PROGRAM " doctor"); }

TEST(DoctorProgram, ChecksTwoRanksAndSaysThatItCanTrain) {
  const Ending ending = run_doctor_with("LC_ALL=C");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("\n  ok       two ranks        they gathered, reduced and stepped, with the"),
                    HasSubstr("\n  ok       LibTorch         2."), HasSubstr("\n  ok       shm "),
                    HasSubstr("\n  ok       matrix products  "), HasSubstr("\nfsdp-train can train here")));
  std::istringstream lines(ending.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_TRUE(std::ranges::all_of(ending.output, [](unsigned char c) { return c < 128; })) << ending.output;
}

TEST(DoctorProgram, SaysWhatBites) {
  const Ending ending = run_doctor_with("ulimit -n 256; OMP_NUM_THREADS=1 LC_ALL=POSIX FSDP_PYTHON=/nowhere/python");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(
      ending.output,
      AllOf(HasSubstr("  note     open files       256 at a time"), HasSubstr("-> ulimit -n 4096\n"),
            HasSubstr("  note     locale           POSIX is not UTF-8"), HasSubstr("1 per rank, as OMP_NUM_THREADS"),
            HasSubstr("  note     tokenizers "), HasSubstr("-> python3 -m pip install tokenizers\n")));
}

// Such a process would wait for the ranks of its job.
TEST(DoctorProgram, ChecksNothingWhereItIsARankOfAJob) {
  const Ending ending = run_doctor_with("RANK=1 WORLD_SIZE=2");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("  note     two ranks        not checked: this process is a rank"));
}

TEST(DoctorProgram, FailsWhereRanksCannotShareMemory) {
  const Ending ending = run_doctor_with("ulimit -f 1;");
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("  problem  two ranks "), HasSubstr("  note     file size "),
                                   HasSubstr("1 problem keeps fsdp-train from training here")));
}

TEST(DoctorProgram, TakesNoOptions) {
  const Ending ending = run_train("doctor --ranks 2");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, HasSubstr("'--ranks' is an option of fsdp-train train, not of fsdp-train doctor."));
}

TEST(ManualProgram, PrintsItsScriptsAndItsPage) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_EQ(run_train(std::string("completion ") + shell).output,
              trainer::completion_script(shell, trainer::train_program()));
  }
  EXPECT_EQ(run_train("man").output, trainer::man_page(trainer::train_program()));
}

TEST(ManualProgram, RefusesAShellThatItDoesNotKnow) {
  const Ending wrong = run_train("completion tcsh"), none = run_train("completion"),
               two = run_train("completion zsh fish");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("SHELL is 'tcsh'; it must be one of bash, zsh, fish."));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("no shell is named: give bash, zsh or fish."));
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.output, HasSubstr("'fish' is one word too many: SHELL is given already."));
}

}  // namespace
