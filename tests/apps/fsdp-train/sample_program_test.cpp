// Samples as people ask for them.
#include <gmock/gmock.h>

#include "apps/columns.h"
#include "apps/fsdp-train/train_program.h"
#include "files/printable.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

class SampleProgram : public TrainProgram {
 protected:
  // In a shell, as the standard input of run_command is empty.
  static Ending in_shell(const std::string& script) { return run_command("sh -c \"" + script + "\""); }

  // Control characters and what is no UTF-8 are made visible.
  static std::string shown(const std::string& text) { return fsdp::files::printable_lines(text) + "\n"; }

  static std::string sample(const std::string& arguments) {
    const Ending ending = run_train("sample --threads 1 --sample-length 20 " + arguments);
    EXPECT_EQ(ending.code, 0) << ending.output;
    return ending.output;
  }
};

TEST_F(SampleProgram, WritesWithARunACheckpointAndAnExportedModel) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 5 --lr 0.01 --export --prompt And").code, 0);
  const std::string run = folder_ / "run", text = shown(read_bytes(folder_ / "run/sample.txt"));
  EXPECT_THAT(text, StartsWith("And"));
  EXPECT_EQ(sample("--checkpoint " + run), text);
  EXPECT_EQ(sample("--checkpoint " + run + "/step-5"), text);
  EXPECT_EQ(sample("--prompt And --checkpoint " + run + "/model"), text);
  const auto plain = [&](const std::string& place) {
    return in_shell("cd " + folder_.path().string() + " && " FSDP_TRAIN_PROGRAM " sample " + place +
                    " --threads 1 --sample-length 20")
        .output;
  };
  EXPECT_EQ(plain("run"), text);
  EXPECT_EQ(plain("run/step-5"), text);
  fs::rename(folder_ / "run/model", folder_ / "model");
  EXPECT_EQ(plain("model --prompt And"), text);
}

TEST_F(SampleProgram, WritesWithACheckpointOfReplicas) {
  ASSERT_EQ(tiny("run", "--ranks 4 --strategy hybrid-shard --shard-group-size 2 --steps 2 --prompt And").code, 0);
  EXPECT_EQ(sample("--checkpoint " + (folder_ / "run")), shown(read_bytes(folder_ / "run/sample.txt")));
}

TEST_F(SampleProgram, ReadsThePromptFromStandardInput) {
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  const std::string start = FSDP_TRAIN_PROGRAM " sample " + (folder_ / "run") + " --threads 1 --sample-length 20";
  const std::string text = in_shell(start + " --prompt 'In the '").output;
  EXPECT_THAT(text, StartsWith("In the "));
  EXPECT_EQ(in_shell("echo 'In the ' | " + start).output, text);
  EXPECT_EQ(in_shell("printf 'In the ' | " + start + " --prompt -").output, text);
  EXPECT_EQ(in_shell(start + " < " + folder_.write("prompt.txt", "In the \n")).output, text);
  EXPECT_EQ(in_shell("echo 'other' | " + start + " --prompt 'In the '").output, text);
  EXPECT_THAT(in_shell(start + " --prompt ''").output, StartsWith("\n"));
}

TEST_F(SampleProgram, WritesSeveralSamples) {
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  const std::string run = folder_ / "run --prompt a";
  const std::string first = sample("--checkpoint " + run), second = sample("--seed 2 --checkpoint " + run);
  EXPECT_NE(first, second);
  EXPECT_EQ(sample("--samples 2 --checkpoint " + run),
            "--- sample 1 of 2 ---\n" + first + "\n--- sample 2 of 2 ---\n" + second);
}

TEST_F(SampleProgram, ShowsTheTextAsItComes) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2").code, 0);
  const std::string endless =
      FSDP_TRAIN_PROGRAM " sample " + (folder_ / "run") + " --prompt begin --sample-length 1000000000 2>&1 < /dev/null";
  FILE* output = popen(endless.c_str(), "r");
  std::string text(40, '\0');
  EXPECT_EQ(fread(text.data(), 1, text.size(), output), text.size());
  EXPECT_THAT(text, StartsWith("begin"));
  EXPECT_EQ(pclose(output), 0);  // it ends with its reader
}

TEST_F(SampleProgram, SaysWhichCheckpointItPassesOver) {
  ASSERT_EQ(tiny("run", "--steps 6 --save-every 2").code, 0);
  const std::string expected = sample(folder_ / "run/step-2 --prompt a");
  fs::remove(folder_ / "run/step-6/manifest.json");
  fs::resize_file(folder_ / "run/step-4/shard-00001-of-00001.safetensors", 5000);
  const std::string text = sample(folder_ / "run --prompt a");
  EXPECT_THAT(text, AllOf(HasSubstr("run/step-6 cannot be loaded: "), HasSubstr("run/step-4 cannot be loaded: "),
                          HasSubstr("found 5000 bytes"), HasSubstr("run/step-2 is taken in its place.\n" + expected)));
}

TEST_F(SampleProgram, OfWeightsThatGiveNoFiniteLogitsIsAnError) {
  ASSERT_EQ(tiny("run", "--steps 1 --lr 1e30 --schedule constant").code, 0);
  const Ending ending = run_train("sample --threads 1 --prompt a " + (folder_ / "run"));
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("sample 1 ends after 0 tokens: the model's logits are not finite"));
}

TEST_F(SampleProgram, RefusesAllThatIsWrongAtOnce) {
  const Ending ending = run_train("sample " + (folder_ / "none") + " --samples 0 --tokenizer " + (folder_ / "no.json"));
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("3 problems"), HasSubstr("--samples is 0"),
                                   HasSubstr("none' does not exist"), HasSubstr("no.json' does not exist")));
  fs::create_directory(folder_ / "void");
  EXPECT_THAT(run_train("sample " + (folder_ / "void")).output, HasSubstr("has no manifest.json"));
  EXPECT_THAT(run_train("sample").output, HasSubstr("--checkpoint is missing: name a run"));
}

}  // namespace
