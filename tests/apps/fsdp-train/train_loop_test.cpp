// Work between the steps of a run: going on, stopping, saving, and telling the user.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/fsdp-train/train_program.h"
#include "support/required.h"
#include "tokenizers/sentencepiece.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
namespace fs = std::filesystem;

using TrainLoop = TrainProgram;

std::vector<std::string> told_events_of(const std::string& run) {
  std::vector<std::string> events;
  for (const json& record : metrics_of(run)) {
    if (record.contains("event")) events.push_back(record["event"]);
  }
  return events;
}

TEST_F(TrainLoop, GoesOnByItselfWithTheSameBits) {
  const std::string job = "--ranks 2 --schedule constant --export --dropout 0.1 ";
  ASSERT_EQ(tiny("whole", job + "--steps 9").code, 0);
  ASSERT_EQ(tiny("parts", job + "--steps 4").code, 0);
  const Ending second = tiny("parts", job + "--steps 9");
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("goes on from " + (folder_ / "parts/step-4")));
  EXPECT_EQ(losses_of(folder_ / "parts"), losses_of(folder_ / "whole"));
  EXPECT_EQ(read_bytes(folder_ / "parts/model/model.safetensors"),
            read_bytes(folder_ / "whole/model/model.safetensors"));
}

TEST_F(TrainLoop, LeavesARunAloneThatIsDone) {
  ASSERT_EQ(tiny("run", "--steps 3").code, 0);
  const std::string before = read_bytes(folder_ / "run/metrics.jsonl");
  const std::string configuration = read_bytes(folder_ / "run/config.json");
  const Ending again = tiny("run", "--steps 3");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("all 3 steps are done"));
  EXPECT_EQ(read_bytes(folder_ / "run/metrics.jsonl"), before);
  EXPECT_EQ(read_bytes(folder_ / "run/config.json"), configuration);
}

TEST_F(TrainLoop, WritesOverNoEarlierRun) {
  ASSERT_EQ(tiny("run", "--steps 2 --resume never").code, 0);
  const Ending again = tiny("run", "--steps 2 --resume never");
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.output, HasSubstr("has checkpoints up to step-2. Name another --run"));
}

TEST_F(TrainLoop, GoesOnFromTheNewestCheckpointThatIsWhole) {
  ASSERT_EQ(tiny("run", "--steps 4 --save-every 2").code, 0);
  const std::string shard = folder_ / "run/step-4/shard-00001-of-00001.safetensors";
  std::string bytes = read_bytes(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(shard, std::ios::binary) << bytes;
  const Ending again = tiny("run", "--steps 5");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output,
              AllOf(HasSubstr("goes on from " + (folder_ / "run/step-2")), HasSubstr("step-4 cannot be loaded")));
  EXPECT_THAT(read_bytes(folder_ / "run/metrics.jsonl"),
              AllOf(HasSubstr("step-4 cannot be loaded"), HasSubstr("of tensor optimizer.exp_avg_sq.")));
  EXPECT_THAT(losses_of(folder_ / "run"), SizeIs(5));
  EXPECT_TRUE(fs::exists(folder_ / "run/step-5/manifest.json"));
}

TEST_F(TrainLoop, SaysWhichCheckpointsLackTheirManifest) {
  ASSERT_EQ(tiny("run", "--steps 4 --save-every 2").code, 0);
  fs::remove(folder_ / "run/step-4/manifest.json");
  const Ending again = tiny("run", "--steps 5");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output,
              AllOf(HasSubstr("goes on from " + (folder_ / "run/step-2")), HasSubstr("step-4 cannot be loaded")));
}

TEST_F(TrainLoop, NamesAllCheckpointsWhereNoneCanBeLoaded) {
  ASSERT_EQ(tiny("run", "--steps 4 --save-every 2 --keep 2").code, 0);
  for (const char* step : {"2", "4"}) fs::remove(folder_ / fmt::format("run/step-{}/manifest.json", step));
  const Ending again = tiny("run", "--steps 5 --ranks 2");
  EXPECT_EQ(again.code, 2) << again.output;
  EXPECT_THAT(again.output, AllOf(HasSubstr("has no checkpoint to resume from"), HasSubstr("step-4 cannot be loaded"),
                                  HasSubstr("step-2 cannot be loaded"), HasSubstr("another --run")));
}

TEST_F(TrainLoop, KeepsTheNewestCheckpoints) {
  ASSERT_EQ(tiny("run", "--steps 5 --save-every 1 --keep 2").code, 0);
  std::vector<std::string> kept;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "run")) {
    if (entry.path().filename().string().starts_with("step-")) kept.push_back(entry.path().filename());
  }
  EXPECT_THAT(kept, testing::UnorderedElementsAre("step-4", "step-5"));
}

TEST_F(TrainLoop, RecordsEveryCheckpoint) {
  const Ending ending = tiny("run", "--ranks 2 --steps 4 --save-every 1 --validate-every 2 --keep 2 --lr 0.01");
  ASSERT_EQ(ending.code, 0) << ending.output;
  std::vector<std::string> folders;
  for (const json& record : events_of(folder_ / "run", "checkpoint")) {
    const std::string folder = record["folder"];
    folders.push_back(folder);
    EXPECT_EQ(record["best"], folder == "best");
    EXPECT_GT(record["bytes"], 1000);
    EXPECT_GT(record["save_seconds"], 0);
    EXPECT_GT(record["pause_seconds"], 0);
    if (folder == "best") continue;
    EXPECT_EQ("step-" + std::to_string(record["step"].get<int64_t>()), folder);
    EXPECT_EQ(record["kept"], std::min<int64_t>(record["step"].get<int64_t>(), 2));
    EXPECT_EQ(record.value("removed", json::array()).size(), record["step"] > 2 ? 1u : 0u);
  }
  EXPECT_THAT(folders, ElementsAre("step-1", "best", "step-2", "step-3", "best", "step-4"));
  for (const char* told : {"step 2: saved ", "run/best, ", "step 3: saved ", "; removed step-1\n"}) {
    EXPECT_THAT(ending.output, HasSubstr(told));
  }
  EXPECT_THAT(ending.output, Not(HasSubstr("step 4: saved")));  // the last lines say where it is
  // Each is recorded once by a run that goes on.
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 5 --save-every 1 --validate-every 2 --keep 2 --lr 0.01").code, 0);
  EXPECT_EQ(events_of(folder_ / "run", "checkpoint").back()["removed"], json::array({"step-3"}));
  const Ending report = run_train("report " + (folder_ / "run"));
  ASSERT_EQ(report.code, 0) << report.output;
  EXPECT_THAT(
      read_bytes(folder_ / "run/report.html"),
      AllOf(HasSubstr("<h2>Checkpoints</h2>"), HasSubstr("<td>step-5</td>"), Not(HasSubstr("<td>step-3</td>"))));
}

TEST_F(TrainLoop, SavesTheSameBesideTheStepsAsWhileTheyWait) {
  const std::string job = "--ranks 2 --steps 5 --save-every 1 --validate-every 2 --lr 0.01";
  ASSERT_EQ(tiny("beside", job).code, 0);
  ASSERT_EQ(tiny("waiting", job + " --save-sync").code, 0);
  for (const char* checkpoint : {"step-1", "step-2", "step-3", "step-4", "step-5", "best"}) {
    for (const char* file : {"manifest.json", "shard-00001-of-00002.safetensors", "shard-00002-of-00002.safetensors"}) {
      const fs::path name = fs::path(checkpoint) / file;
      EXPECT_TRUE(read_bytes(folder_.path() / "beside" / name) == read_bytes(folder_.path() / "waiting" / name))
          << name;
    }
  }
  for (const json& record : events_of(folder_ / "waiting", "checkpoint"))
    EXPECT_EQ(record["pause_seconds"], record["save_seconds"]);
}

TEST_F(TrainLoop, SavesByTheClock) {
  ASSERT_EQ(tiny("run", "--steps 3 --save-minutes 1e-9").code, 0);
  for (const char* step : {"run/step-1", "run/step-2", "run/step-3"}) EXPECT_TRUE(fs::exists(folder_ / step));
}

TEST_F(TrainLoop, StopsWhenThePatienceRunsOut) {
  const Ending ending = tiny("run", "--ranks 2 --steps 50 --lr 1e-30 --validate-every 1 --patience 2");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(losses_of(folder_ / "run"), SizeIs(3));
  EXPECT_THAT(told_events_of(folder_ / "run"), ElementsAre(HasSubstr("stops early")));
  EXPECT_TRUE(fs::exists(folder_ / "run/step-3/manifest.json"));
}

TEST_F(TrainLoop, StopsAtALossThatIsNotFinite) {
  const Ending ending = tiny("run", "--ranks 2 --steps 20 --lr 1e30");
  EXPECT_EQ(ending.code, 1);
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("step 2: the loss of rank 0 is not finite; the first gradient that is not is "
                              "that of transformer."),
                    HasSubstr("--on-nonfinite skip")));
}

TEST_F(TrainLoop, PassesOverStepsThatAreNotFinite) {
  const Ending ending = tiny("run", "--ranks 2 --steps 4 --lr 1e30 --on-nonfinite skip --log-every 1");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(told_events_of(folder_ / "run"), SizeIs(3));
  EXPECT_THAT(told_events_of(folder_ / "run").front(), HasSubstr("no parameter was changed"));
  EXPECT_THAT(ending.output, HasSubstr("skipped"));
}

TEST_F(TrainLoop, WritesSamplesAndTracesOnTheWay) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 4 --sample-every 2 --trace-steps 2..3").code, 0);
  EXPECT_THAT(read_bytes(folder_ / "run/sample-2.txt"), Not(testing::IsEmpty()));
  for (const char* rank : {"0", "1"}) {
    const std::string file = folder_ / ("run/traces/steps-2-3.rank" + std::string(rank) + ".json");
    EXPECT_THAT(read_bytes(file), HasSubstr("reduce "));
  }
}

TEST_F(TrainLoop, IsTheSameOnAnyNumberOfRanks) {
  for (const std::string& model :
       {std::string("--model llama-tiny --key-value-heads 1"), std::string("--dropout 0.2 --optimizer muon")}) {
    std::vector<double> losses;
    std::string weights;
    for (const int ranks : {1, 2, 4}) {
      const std::string run = "run-" + std::to_string(ranks);
      const std::string divided = " --ranks " + std::to_string(ranks) + " --micro-batches " + std::to_string(4 / ranks);
      fs::remove_all(folder_ / run);
      const Ending ending = tiny(run, model + divided + " --steps 4 --validate-every 2 --export");
      ASSERT_EQ(ending.code, 0) << ending.output;
      const std::string bytes = read_bytes(folder_ / (run + "/model/model.safetensors"));
      if (ranks == 1) {
        losses = losses_of(folder_ / run), weights = bytes;
      } else {
        EXPECT_EQ(losses_of(folder_ / run), losses) << model << divided;
        EXPECT_EQ(bytes, weights) << model << divided;
      }
    }
    EXPECT_THAT(losses, SizeIs(4));
  }
}

TEST_F(TrainLoop, BeginsWithWeightsFromElsewhere) {
  ASSERT_EQ(tiny("first", "--ranks 2 --steps 30 --lr 0.01 --export").code, 0);
  const Ending ending = tiny("second", "--steps 1 --init-from " + (folder_ / "first/model"));
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_LT(losses_of(folder_ / "second").front(), losses_of(folder_ / "first").front() - 0.5);
}

TEST_F(TrainLoop, BeginsWithTheWeightsOfARun) {
  const Ending first = tiny("first", "--ranks 2 --steps 30 --lr 0.01 --save-every 20 --export --tokenizer train:300");
  ASSERT_EQ(first.code, 0) << first.output;
  const double before = losses_of(folder_ / "first").front();
  const std::string arguments = "--text " + text_ + " --steps 1 --batch 2 --threads 1 --sample-length 20 --run ";
  for (const char* place : {"first", "first/step-20", "first/step-30", "first/model"}) {
    SCOPED_TRACE(place);
    const std::string run = folder_ / ("from-" + std::to_string(std::hash<std::string>()(place)));
    const Ending ending = run_train(arguments + run + " --init-from " + (folder_ / place));
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_LT(losses_of(run).front(), before - 0.5);
    EXPECT_EQ(metrics_of(run).back()["step"], 1);
    const std::string weights = place == std::string("first") ? "first/step-30" : place;
    EXPECT_THAT(ending.output, HasSubstr("begins with the weights of " + (folder_ / weights)));
    EXPECT_TRUE(fs::exists(run + "/tokenizer.model"));
  }
  const std::string evaluation = "--text " + text_ + " --init-from ";
  EXPECT_EQ(evaluated(evaluation + (folder_ / "first"))["validation_loss"],
            evaluated("--run " + (folder_ / "first"))["validation_loss"]);
}

// Also after the first run is gone.
TEST_F(TrainLoop, GoesOnAfterTheWeightsOfARun) {
  ASSERT_EQ(tiny("first", "--steps 10 --lr 0.01").code, 0);
  const std::string run = folder_ / "second";
  const Ending begun = run_train("--text " + text_ + " --steps 3 --batch 2 --threads 1 --sample-length 20 --run " +
                                 run + " --init-from " + (folder_ / "first/step-10"));
  ASSERT_EQ(begun.code, 0) << begun.output;
  fs::remove_all(folder_ / "first");
  const Ending ending = run_train("--resume " + run + " --steps 5");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("goes on from " + run + "/step-3"));
}

TEST_F(TrainLoop, TakesTheFirstPositionsOfALongerGpt2AndSaysSo) {
  ASSERT_EQ(tiny("first", "--ranks 2 --steps 30 --lr 0.01 --export").code, 0);
  const std::string weights = folder_ / "first/model";
  const Ending ending = tiny("second", "--steps 1 --context 8 --init-from " + weights);
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr(weights + ": cut to the rows of --context: transformer.wpe.weight"));
  EXPECT_LT(losses_of(folder_ / "second").front(), losses_of(folder_ / "first").front() - 0.5);
  const Ending longer = tiny("third", "--steps 1 --context 32 --init-from " + weights);
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.output, HasSubstr("has 16 positions, and --context is 32. Use --context 16"));
  for (const std::string& other :
       {"--width 32 --init-from " + weights, "--context 8 --checkpoint " + (folder_ / "first/step-30")}) {
    const Ending ending = tiny("other", "--steps 40 " + other);
    EXPECT_EQ(ending.code, 2);
    EXPECT_THAT(ending.output, AllOf(HasSubstr(" has shape "), HasSubstr("--context, --width"))) << other;
  }
}

TEST_F(TrainLoop, TrainsOnPreparedTokensAsOnTheirText) {
  ASSERT_EQ(tiny("text", "--steps 4").code, 0);
  const Ending prepared = run_train("prepare --text " + text_ + " --output " + (folder_ / "tokens"));
  ASSERT_EQ(prepared.code, 0) << prepared.output;
  const Ending ending = tiny("tokens-run", "--steps 4 --data " + (folder_ / "tokens"));
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_EQ(losses_of(folder_ / "tokens-run"), losses_of(folder_ / "text"));
}

TEST_F(TrainLoop, TrainsATokenizerAndSamplesWithIt) {
  if (!tokenizers::has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  const Ending ending = tiny("run", "--ranks 2 --steps 3 --tokenizer train:300 --cache " + (folder_ / "cache"));
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("a vocabulary of 300"));
  EXPECT_TRUE(fs::exists(folder_ / "run/tokenizer.model"));
  const Ending sample = run_train("sample --prompt word --checkpoint " + (folder_ / "run/step-3"));
  EXPECT_EQ(sample.code, 0) << sample.output;
  EXPECT_THAT(sample.output, testing::StartsWith("word"));
}

// In a folder on a disk that has room for a run, and for no checkpoint.
class TrainOnASmallDisk : public TrainLoop {
 protected:
  void SetUp() override {
    if (geteuid() != 0) FSDP_SKIP_TEST("needs root, to mount a small disk");
  }
  // Returns the output, followed by the run's records and the names of its files.
  Ending train(const std::string& more) const {
    const std::string arguments = "--text " + text_ +
                                  " --run disk/run --width 128 --layers 3 --context 16 --batch 2 --threads 1 "
                                  "--save-every 2 --sample-length 0 " +
                                  more;
    return run_command("unshare -m sh -c 'cd " + folder_.path().string() +
                       " && mkdir disk && mount -t tmpfs -o size=2m none disk && " FSDP_TRAIN_PROGRAM " " + arguments +
                       "; code=$?; cat disk/run/metrics.jsonl; ls disk/run; exit $code'");
  }
};

TEST_F(TrainOnASmallDisk, GoesOnWhenItIsFull) {
  const Ending ending = train("--steps 4");
  EXPECT_EQ(ending.code, 1);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("the checkpoint could not be saved, training goes on"),
                                   HasSubstr("No space left"), HasSubstr("\"step\":4")));
  EXPECT_THAT(ending.output, Not(HasSubstr("partial\n")));
}

TEST_F(TrainOnASmallDisk, StopsWhereItIsToldTo) {
  for (const std::string mode : {"--save-sync", ""}) {
    SCOPED_TRACE(mode);
    fs::remove_all(folder_ / "disk");
    const Ending ending = train("--ranks 2 --steps 1000 --max-restarts 3 --on-failed-save stop " + mode);
    EXPECT_EQ(ending.code, 1);
    EXPECT_THAT(ending.output, AllOf(HasSubstr("step 2: a checkpoint could not be saved, and --on-failed-save is stop"),
                                     HasSubstr("No space left"), Not(HasSubstr("\"step\":20,"))));
    const std::string told = "a checkpoint could not be saved";  // and once more in the record
    const size_t first = ending.output.find(told), records = ending.output.find("{\"step\"");
    EXPECT_GT(ending.output.find(told, first + 1), records) << ending.output;
    EXPECT_THAT(ending.output, Not(HasSubstr("the ranks were started again")));
    EXPECT_THAT(ending.output, Not(HasSubstr("did not answer")));
  }
}

}  // namespace
