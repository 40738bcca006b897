// --eval-only: the loss of weights that were trained before.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "apps/fsdp-train/train_program.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class TrainEvaluation : public TrainProgram {};

TEST_F(TrainEvaluation, GivesTheLossThatTheRunMeasured) {
  ASSERT_EQ(tiny("run", "--steps 4 --validation-windows 1000").code, 0);
  const double expected = metrics_of(folder_ / "run").back()["validation_loss"];
  // Windows alone: the tokens after the last one are what --eval-only adds.
  const json found = evaluated("--run " + (folder_ / "run") + " --validation-windows 1000");
  EXPECT_EQ(found["validation_loss"], expected);
  EXPECT_EQ(found["perplexity"], std::exp(expected));
  EXPECT_EQ(found["step"], 4);
  EXPECT_EQ(found["weights"], folder_ / "run/step-4");
}

TEST_F(TrainEvaluation, CountsEveryTokenButTheFirst) {
  ASSERT_EQ(tiny("run", "--steps 1").code, 0);
  const std::string text = folder_.write("other.txt", std::string(1234, 'a') + std::string(765, 'b'));
  const std::string weights = "--checkpoint " + (folder_ / "run/step-1");
  EXPECT_EQ(evaluated(weights + " --validation " + text)["tokens"], 1998);
  EXPECT_EQ(evaluated(weights + " --validation " + text + " --validation-windows 5")["tokens"], 5 * 16);
}

TEST_F(TrainEvaluation, IsTheSameOnAnyNumberOfRanks) {
  ASSERT_EQ(tiny("run", "--steps 3 --export").code, 0);
  const std::string model = folder_ / "run/model";
  const std::string from_weights =
      "--model " + model + " --init-from " + model + " --text " + text_ + " --tie-embeddings true --ranks ";
  const json expected = evaluated("--run " + (folder_ / "run"));
  for (const std::string& ranks : {"2", "3"}) {
    // A checkpoint of one rank is loaded by each of several.
    EXPECT_EQ(evaluated("--run " + (folder_ / "run") + " --ranks " + ranks), expected);
    const json found = evaluated(from_weights + ranks);
    EXPECT_EQ(found["validation_loss"], expected["validation_loss"]);
    EXPECT_EQ(found["weights"], model);
    EXPECT_EQ(found["step"], 0);
  }
  // The model with the same weights, in several shards.
  for (const std::string& job :
       {"--ranks 2 --batch 1", "--ranks 4 --batch 1 --strategy hybrid-shard --shard-group-size 2"}) {
    fs::remove_all(folder_ / "sharded");
    ASSERT_EQ(tiny("sharded", "--steps 3 --export " + job).code, 0);
    const json found = evaluated("--run " + (folder_ / "sharded"));
    EXPECT_EQ(evaluated("--ranks 4 --run " + (folder_ / "sharded")), found);
    const std::string same = folder_ / "sharded/model";
    EXPECT_EQ(found["validation_loss"],
              evaluated("--model " + same + " --init-from " + same + " --text " + text_)["validation_loss"]);
  }
}

TEST_F(TrainEvaluation, SaysWhichCheckpointItPassesOver) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 6 --save-every 2").code, 0);
  const std::string run = folder_ / "run";
  fs::remove(run + "/step-6/manifest.json");
  fs::resize_file(run + "/step-4/shard-00002-of-00002.safetensors", 5000);
  for (const char* named : {"--run ", "--checkpoint "}) {
    for (const char* ranks : {"1", "2"}) {
      const Ending ending = run_train("--eval-only --threads 1 --ranks " + std::string(ranks) + " " + named + run);
      EXPECT_EQ(ending.code, 0) << ending.output;
      EXPECT_THAT(ending.output,
                  AllOf(HasSubstr("run/step-6 cannot be loaded: "), HasSubstr("run/step-4 cannot be loaded: "),
                        HasSubstr("run/step-2 is taken in its place.\n"), HasSubstr("run/step-2, step 2")));
    }
  }
}

TEST_F(TrainEvaluation, OfALossThatIsNotFiniteIsAnError) {
  ASSERT_EQ(tiny("run", "--steps 1 --lr 1e30 --schedule constant").code, 0);
  for (const char* how : {"--ranks 1", "--ranks 2", "--ranks 2 --json"}) {
    const Ending ending = run_train("--eval-only --threads 1 --run " + (folder_ / "run ") + how);
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output,
                HasSubstr("the validation loss of " + (folder_ / "run/step-1") + " is not finite (nan)"));
    EXPECT_THAT(ending.output, Not(HasSubstr("rank 0 says")));
  }
}

TEST_F(TrainEvaluation, WritesNothing) {
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  const auto entries = [&] {
    return run_command("cd " + folder_.path().string() + " && find . | sort | xargs ls -ld").output;
  };
  const std::string before = entries();
  const Ending ending =
      run_command("cd " + folder_.path().string() + " && " FSDP_TRAIN_PROGRAM " --eval-only --checkpoint run/step-2");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("run/step-2, step 2"), HasSubstr("nats per token"), HasSubstr("perplexity")));
  EXPECT_EQ(entries(), before);
}

TEST_F(TrainEvaluation, SaysWhatIsMissing) {
  const auto refused = [&](const std::string& arguments) {
    const Ending ending = run_train("--eval-only " + arguments);
    EXPECT_EQ(ending.code, 2) << ending.output;
    return ending.output;
  };
  EXPECT_THAT(refused("--run " + (folder_ / "none") + " --text " + text_),
              AllOf(HasSubstr("--eval-only has no weights"), HasSubstr("Name one with --checkpoint")));
  EXPECT_THAT(refused("--checkpoint " + (folder_ / "none") + " --text " + text_), HasSubstr("does not exist"));
  EXPECT_THAT(refused("--dry-run --text " + text_), HasSubstr("--eval-only and --dry-run are both given"));
  EXPECT_THAT(run_train("--json --text " + text_).output, HasSubstr("--json is given without --eval-only"));
  ASSERT_EQ(tiny("run", "--steps 1 --ranks 2").code, 0);
  EXPECT_THAT(refused("--run " + (folder_ / "run") + " --validation-fraction 0"),
              HasSubstr("there is nothing to evaluate on"));
}

}  // namespace
