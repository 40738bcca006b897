#include "fsdp-train/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Inputs, AllProblemsAreFoundAtOnce) {
  TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  RunOptions options;
  options.text = folder / "none.txt";
  options.run = file + "/run";
  options.checkpoint = folder.path();
  EXPECT_THAT(read_inputs(options).problems, ElementsAre(HasSubstr("does not exist"), HasSubstr("has no manifest.json"),
                                                         HasSubstr("'" + file + "' is a file")));
}

// Each with the flag that it is about.
TEST(Inputs, EveryPartIsLookedAt) {
  TemporaryFolder folder;
  RunOptions options;
  options.text = folder.write("short", "x");
  options.validation = folder / "none";
  options.model_options.init_from = folder.path();
  options.resume = folder / "never";
  options.run = folder / "run";
  EXPECT_THAT(read_inputs(options).problems,
              ElementsAre(StartsWith("--text: data '"), StartsWith("--validation: "), StartsWith("--init-from: '"),
                          StartsWith("--resume: checkpoint '")));
  options.tokenizer = folder / "no.model";
  EXPECT_THAT(read_inputs(options).problems,
              ElementsAre(StartsWith("--validation: "), StartsWith("--tokenizer: "), StartsWith("--init-from: '"),
                          StartsWith("--resume: checkpoint '")));
  options.data = std::exchange(options.text, "");
  options.data = folder / "nothing.bin";
  EXPECT_THAT(read_inputs(options).problems,
              ElementsAre(StartsWith("--data: "), StartsWith("--validation: "), StartsWith("--tokenizer: "),
                          StartsWith("--init-from: '"), StartsWith("--resume: checkpoint '")));
}

TEST(Inputs, WeightsAreInAFileOrAFolderOfThem) {
  TemporaryFolder folder;
  RunOptions options;
  options.text = folder.write("text", std::string(500, 'x'));
  options.run = folder / "run";
  for (const char* name : {"a/model.safetensors", "b/model.safetensors.index.json"}) {
    options.model_options.init_from = std::filesystem::path(folder.write(name, "")).parent_path();
    EXPECT_THAT(read_inputs(options).problems, IsEmpty());
  }
  options.model_options.init_from = folder / "a/model.safetensors";
  EXPECT_THAT(read_inputs(options).problems, IsEmpty());
  options.model_options.init_from = std::filesystem::path(folder.write("c/manifest.json", "")).parent_path();
  EXPECT_THAT(read_inputs(options).problems, IsEmpty());
  options.model_options.init_from = folder.path();
  EXPECT_THAT(read_inputs(options).problems,
              ElementsAre(HasSubstr("and is neither a run nor a checkpoint. Name a run")));
}

// From its own checkpoint: the first weights may be gone.
TEST(Inputs, WeightsAreOfNoUseToARunThatGoesOn) {
  TemporaryFolder folder;
  RunOptions options;
  options.text = folder.write("text", std::string(500, 'x'));
  options.run = folder / "run";
  options.model_options.init_from = folder / "gone";
  EXPECT_THAT(read_inputs(options).problems, ElementsAre(HasSubstr("gone' does not exist")));
  folder.write("run/metrics.jsonl", "");
  folder.write("run/step-4/manifest.json", R"({"format": "fsdp-checkpoint"})");
  EXPECT_THAT(read_inputs(options).problems, IsEmpty());
}

TEST(Inputs, GoodOnesLeaveNoTrace) {
  TemporaryFolder folder;
  RunOptions options;
  options.text = folder.write("text", std::string(500, 'x'));
  options.run = folder / "deep/run";
  const Inputs inputs = read_inputs(options);
  EXPECT_THAT(inputs.problems, IsEmpty());
  EXPECT_EQ(inputs.corpus.training->size(), 500);
  EXPECT_FALSE(std::filesystem::exists(folder / "deep"));
}

}  // namespace
}  // namespace trainer
