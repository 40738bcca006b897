// fsdp-train on a mesh of ranks: the losses and weights are those of one process that computes the same parts.
#include "apps/fsdp-train/train_mesh.h"

#include <gmock/gmock.h>

namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kOneOfTwoParts = "--ranks 1 --micro-batches 8 --tensor-parts 2 ";

// Losses, norms and validations of eight ranks, with dropout and without, of both families.
TEST_F(TrainMesh, HasTheLossesOfOneProcess) {
  for (const std::string model : {kQuickstart, kLlama}) {
    for (const std::string more : {"", "--dropout 0.1 "}) {
      if (model == kLlama && !more.empty()) continue;  // it has none
      SCOPED_TRACE(model + more);
      const std::string run = "run" + std::to_string(model.size() + more.size());
      const std::string arguments = model + more + "--steps 4 --validate-every 2 --export ";
      train(run + "-one", arguments + kOneOfTwoParts);
      train(run + "-mesh", arguments + mesh(2, 2, 2));
      ASSERT_EQ(steps_of(run + "-mesh").size(), 4u);
      EXPECT_EQ(steps_of(run + "-mesh"), steps_of(run + "-one"));
      EXPECT_EQ(weights_of(run + "-mesh"), weights_of(run + "-one"));
    }
  }
}

// A step draws its numbers by block, so that dropout has the bits of a run without a pipeline.
TEST_F(TrainMesh, OfStagesAloneHasTheLossesOfAPlainRun) {
  const std::string arguments = std::string(kGpt2) + "--steps 3 --dropout 0.1 --micro-batches 6 --export ";
  train("plain", arguments + "--ranks 1");
  for (const std::string stages :
       {"--ranks 2 --pipeline-parallel 2 --pipeline-schedule zero-bubble",
        "--ranks 3 --pipeline-parallel 3 --stages 3*2,2",
        "--ranks 4 --pipeline-parallel 4 --pipeline-schedule all-forward-all-backward",
        "--ranks 2 --pipeline-parallel 2 --stages-per-rank 2 --pipeline-schedule interleaved"}) {
    SCOPED_TRACE(stages);
    std::filesystem::remove_all(folder_ / "stages");
    train("stages", arguments + stages);
    EXPECT_EQ(steps_of("stages"), steps_of("plain"));
    EXPECT_EQ(weights_of("stages"), weights_of("plain"));
  }
}

TEST_F(TrainMesh, WorksWithWhatAPlainRunWorksWith) {
  for (const std::string more :
       {"--strategy shard-grad-op --activation-checkpoint all", "--optimizer muon", "--param-dtype fp16 --offload all",
        "--param-dtype bf16 --tie-embeddings=false", "--strategy no-shard --offload-activations",
        "--freeze transformer.wte,transformer.h.0 --optimizer-state bf16"}) {
    SCOPED_TRACE(more);
    const std::string arguments = std::string(kGpt2) + "--steps 2 " + more + " ";
    for (const char* run : {"plain", "stages"}) std::filesystem::remove_all(folder_ / run);
    train("plain", arguments + "--ranks 2 --micro-batches 3");
    train("stages", arguments + "--ranks 4 --pipeline-parallel 2 --micro-batches 3");
    EXPECT_EQ(losses_of(folder_ / "stages"), losses_of(folder_ / "plain"));
  }
}

TEST_F(TrainMesh, DividesSequences) {
  const std::string arguments = std::string(kGpt2) + "--steps 3 --dropout 0.1 --sequence-parallel --validate-every 1 ";
  train("one", arguments + "--ranks 1 --micro-batches 2 --tensor-parts 2");
  train("mesh", arguments + "--ranks 4 --pipeline-parallel 2 --tensor-parallel 2 --micro-batches 2");
  EXPECT_EQ(steps_of("mesh"), steps_of("one"));
}

// From 2 x 2 x 2 to 4 x 1 x 2, to one rank, and to a pipeline of four.
TEST_F(TrainMesh, GoesOnOnOtherMeshes) {
  const std::string arguments = std::string(kGpt2) + "--dropout 0.1 ";
  train("whole", arguments + kOneOfTwoParts + "--steps 8");
  train("run", arguments + mesh(2, 2, 2) + "--steps 2");
  train("run", arguments + mesh(4, 1, 2) + "--steps 4");
  train("run", arguments + "--ranks 1 --micro-batches 8 --steps 6");  // with the parts of its checkpoint
  train("run", arguments + "--ranks 4 --micro-batches 8 --pipeline-parallel 4 --steps 8");
  EXPECT_EQ(losses_of(folder_ / "run"), losses_of(folder_ / "whole"));
}

TEST_F(TrainMesh, IsEvaluatedOnAnyMesh) {
  const std::string arguments = std::string(kGpt2) + "--steps 2 --validation-windows 1000 ";
  train("run", arguments + mesh(2, 2, 2));
  const double expected = steps_of("run").back()["validation_loss"];
  for (const char* ranks : {"--ranks 8", "--ranks 1 --pipeline-parallel 1 --tensor-parallel 1",
                            "--ranks 3 --pipeline-parallel 3 --tensor-parallel 1"}) {
    SCOPED_TRACE(ranks);
    EXPECT_EQ(evaluated("--run " + (folder_ / "run") + " --validation-windows 1000 " + ranks)["validation_loss"],
              expected);
  }
}

// Weights of Hugging Face's format into a mesh, and out of it.
TEST_F(TrainMesh, ReadsAndWritesTheFilesOfOneProcess) {
  const std::string arguments = std::string(kGpt2) + "--steps 1 --export ";
  train("first", arguments + "--ranks 1 --seed 5");
  const std::string from = "--init-from " + (folder_ / "first/model") + " ";
  train("one", arguments + from + kOneOfTwoParts);
  train("mesh", arguments + from + mesh(2, 2, 2));
  EXPECT_EQ(weights_of("mesh"), weights_of("one"));
  EXPECT_EQ(read_bytes(folder_ / "mesh/model/config.json"), read_bytes(folder_ / "one/model/config.json"));
}

TEST_F(TrainMesh, SaysWhereRanksLieAndHowLongTheyWait) {
  const Ending ending = tiny("run", std::string(kGpt2) + "--steps 3 " + mesh(2, 2, 2));
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("2 x 2 x 2 ranks (data x pipeline x tensor)"),
                    HasSubstr("a rank of the pipeline is idle for "), HasSubstr("equally long gives 20 %")));
  const auto last = metrics_of(folder_ / "run").back();
  EXPECT_EQ(last["idle_share_formula"], 0.2);  // 1 / (4 + 1)
  EXPECT_GE(last["idle_share"], 0.0);
}

}  // namespace
