// fsdp-train on a mesh whose ranks fail, and meshes that cannot be.
#include <gmock/gmock.h>
#include <signal.h>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_mesh.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;

class TrainMeshFailures : public TrainMesh {};

// A rank of each stage is killed once: the column at the end is that of the run that was not disturbed.
TEST_F(TrainMeshFailures, GoOnFromTheNewestCheckpoint) {
  const std::string arguments = std::string(kGpt2) +
                                "--ranks 4 --pipeline-parallel 2 --micro-batches 2 --steps 60 --save-every 5 --dropout "
                                "0.1 --export ";
  train("whole", arguments);
  for (const int rank : {0, 1, 3}) {
    const std::string run = "killed-" + std::to_string(rank);
    Job job(tiny_arguments(run, arguments + "--max-restarts 2"), folder_ / run, 11 + 5 * static_cast<size_t>(rank));
    const Ending ending = job.end_by(SIGKILL, job.rank(rank));
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("Starting all 4 again (restart 1)."));
    EXPECT_EQ(steps_of(run), steps_of("whole"));
    EXPECT_EQ(weights_of(run), weights_of("whole"));
  }
}

// A rank that is stopped, and does not die, is found by the others' deadline. Most of a step's time is in its passes,
// so that one of a few stops comes there.
// Nothing runs beside it (alone.cmake).
using TrainMeshFailuresAlone = TrainMeshFailures;
TEST_F(TrainMeshFailuresAlone, OfAStoppedRankNameItsStage) {
  const std::string arguments =
      std::string(kGpt2) + "--ranks 2 --pipeline-parallel 2 --micro-batches 40 --steps 100000 --timeout 8 ";
  bool names_stage = false;
  for (int stop = 0; stop < 3 && !names_stage; ++stop) {
    const std::string run = "stopped-" + std::to_string(stop);
    Job job(tiny_arguments(run, arguments), folder_ / run, 3);
    const pid_t stopped = job.rank(1);
    const Ending ending = job.end_by(SIGSTOP, stopped);
    EXPECT_NE(ending.code, 0);
    EXPECT_THAT(ending.output, HasSubstr("rank 1 (data 0, pipeline 1, tensor 0) did not answer"));
    names_stage = ending.output.find("stage 0 ") != std::string::npos &&
                  ending.output.find("of micro-batch ") != std::string::npos;
  }
  EXPECT_TRUE(names_stage);
}

struct Refused {
  const char* arguments;
  std::vector<const char*> problems;
};

TEST_F(TrainMeshFailures, AreRefusedAtOnce) {
  const std::vector<Refused> all = {
      {"--sequence-parallel --stages 4,4 --stages-per-rank 2",
       {"--sequence-parallel is given, and no layer is divided.", "--stages 4,4 is given without --pipeline-parallel",
        "--stages-per-rank 2 is given without --pipeline-parallel"}},
      {"--elastic 2:4 --pipeline-parallel 2 --stages-per-rank 2 --activation-memory 1MB --lora 2 --export",
       {"--elastic is given with --pipeline-parallel", "Use --pipeline-schedule interleaved",
        "--activation-memory is given with", "--export merges the adapters of --lora"}},
      {"--ranks 4 --pipeline-parallel 2 --shard-group-size 3 --optimizer muon --stages 7,1",
       {"--shard-group-size 3 does not divide the 2 data ranks", "stage 1 has none"}},
      {"--ranks 9 --pipeline-parallel 9", {"needs 9 blocks, and the model has 8"}},
      {"--ranks 2 --tensor-parallel 2 --tensor-parts 3",
       {"3 tensor parts cannot be divided among --tensor-parallel 2 ranks. Use one of 1, 3 ranks."}},
      {"--ranks 2 --tensor-parallel 2 --sequence-parallel --context 15 --lora 2",
       {"2 parts do not divide context, which is 15", "divided layers have no adapters"}},
  };
  for (const auto& [arguments, problems] : all) {
    SCOPED_TRACE(arguments);
    const Ending ending = tiny("run", std::string(kGpt2) + arguments);
    EXPECT_EQ(ending.code, 2);
    for (const char* problem : problems) EXPECT_THAT(ending.output, HasSubstr(problem));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  }
}

TEST_F(TrainMeshFailures, AreAllSaidAtOnce) {
  const Ending ending = tiny(
      "run", std::string(kGpt2) + "--ranks 9 --pipeline-parallel 2 --stages 4,3 --tensor-parallel 3 --hot-restart");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("6 problems"), HasSubstr("Use --ranks 6 or 12."),
                                   HasSubstr("--stages: cuts \"4,3\" have 7 blocks in 2 stages, expected 8"),
                                   HasSubstr("--hot-restart"), HasSubstr("--tensor-parallel: 3 parts")));
}

// Other bits would follow: a run keeps its parts.
TEST_F(TrainMeshFailures, OfARunWithOtherPartsAreRefused) {
  train("run", std::string(kGpt2) + "--steps 1");
  const Ending divided = tiny("run", std::string(kGpt2) + "--steps 2 --ranks 2 --tensor-parallel 2 --micro-batches 1");
  EXPECT_EQ(divided.code, 2);
  EXPECT_THAT(divided.output, HasSubstr("1 tensor part cannot be divided among --tensor-parallel 2 ranks"));
  const Ending given = tiny("run", std::string(kGpt2) + "--steps 2 --tensor-parts 2");
  EXPECT_EQ(given.code, 2);
  EXPECT_THAT(given.output, AllOf(HasSubstr("of another run"), HasSubstr("--tensor-parts")));
}

}  // namespace
