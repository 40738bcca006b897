// fsdp-train's commands, its configuration files, and runs that are only planned.
#include <gmock/gmock.h>

#include "apps/columns.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

using TrainConfiguration = TrainProgram;

TEST_F(TrainConfiguration, SavedWithARunReproducesIt) {
  ASSERT_EQ(tiny("first", "--ranks 2 --steps 6 --lr 0.01 --schedule wsd --final-lr 0.5 --beta2 0.95").code, 0);
  const std::string file = folder_ / "first/config.toml";
  const Ending again = run_train("train --config " + file + " --run " + (folder_ / "second"));
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(losses_of(folder_ / "second"), losses_of(folder_ / "first"));
  EXPECT_EQ(read_bytes(folder_ / "second/sample.txt"), read_bytes(folder_ / "first/sample.txt"));
  json first = json::parse(read_bytes(folder_ / "first/config.json"));
  json second = json::parse(read_bytes(folder_ / "second/config.json"));
  EXPECT_EQ(first["beta2"], 0.95);
  EXPECT_EQ(first["decay_steps"], 1);
  EXPECT_EQ(first["parameters"], second["parameters"]);
  first.erase("run");
  second.erase("run");
  EXPECT_EQ(first, second);
}

class TrainFromAnyFolder : public TrainProgram {
 protected:
  // Begun in that folder.
  Ending run_in(const std::string& folder, const std::string& arguments) const {
    return run_command("sh -c 'cd " + folder + " && " FSDP_TRAIN_PROGRAM " " + arguments + "'");
  }
  Ending begin(const std::string& run, int steps) const {
    const std::string more = "--ranks 2 --schedule constant --text text.txt --validation val.txt --run runs/" + run;
    return run_in(project_, tiny_arguments("", more + " --steps " + std::to_string(steps)));
  }

  const std::string project_ = folder_ / "project";

  void SetUp() override {
    folder_.write("project/text.txt", read_bytes(text_));
    folder_.write("project/val.txt", read_bytes(text_));
  }
};

TEST_F(TrainFromAnyFolder, ARunIsMadeAgainAndGoesOnWhereverItsProjectIs) {
  ASSERT_EQ(begin("whole", 6).code, 0);
  ASSERT_EQ(begin("first", 4).code, 0);
  const std::string moved = folder_ / "moved";
  fs::rename(project_, moved);
  const Ending again = run_in("/", "--config " + moved + "/runs/whole/config.toml --run " + (folder_ / "again"));
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(losses_of(folder_ / "again"), losses_of(moved + "/runs/whole"));
  const Ending rest = run_in("/", "--resume " + moved + "/runs/first --steps 6");
  ASSERT_EQ(rest.code, 0) << rest.output;
  EXPECT_THAT(rest.output, HasSubstr("goes on from " + moved + "/runs/first/step-4 (--steps: 4 before, 6 now)\n"));
  EXPECT_EQ(losses_of(moved + "/runs/first"), losses_of(moved + "/runs/whole"));
  EXPECT_THAT(read_bytes(moved + "/runs/first/config.toml"), HasSubstr("\ntext = \"../../text.txt\"\n"));
  const Ending done = run_in(moved, "--resume runs/first");
  EXPECT_THAT(done.output, HasSubstr("all 6 steps are done"));
  const Ending loss = run_in("/", "--eval-only --checkpoint " + moved + "/runs/first");
  EXPECT_EQ(loss.code, 0) << loss.output;
}

TEST_F(TrainFromAnyFolder, AnErrorNamesThePathThatWasTried) {
  ASSERT_EQ(begin("first", 1).code, 0);
  fs::remove(project_ + "/text.txt");
  const Ending ending = run_in("/", "--config " + project_ + "/runs/first/config.toml --run " + (folder_ / "other"));
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("text '" + project_ + "/text.txt' does not exist"),
                                   HasSubstr("config.toml, whose paths are relative to " + project_ + "/runs/first,")));
  folder_.write("own.toml", "[data]\ntext = 'none.txt'\n");
  EXPECT_THAT(run_in(project_, "--config ../own.toml").output,
              AllOf(HasSubstr("text 'none.txt' does not exist"),
                    HasSubstr("../own.toml, whose paths are relative to " + project_ + ", as well.")));
}

TEST_F(TrainConfiguration, HoldsWhatWasChosenAlone) {
  ASSERT_EQ(tiny("first", "--steps 20 --schedule wsd --warmup 0").code, 0);
  const std::string saved = read_bytes(folder_ / "first/config.toml");
  EXPECT_THAT(saved, AllOf(HasSubstr("\nsteps = 20\n"), HasSubstr("\n# decay_steps = 2\n"),
                           HasSubstr("\n# lr = 0.004\n"), HasSubstr("\nthreads = 1\n")));
  const Ending longer =
      run_train("--config " + (folder_ / "first/config.toml") + " --steps 40 --run " + (folder_ / "second"));
  ASSERT_EQ(longer.code, 0) << longer.output;
  EXPECT_EQ(json::parse(read_bytes(folder_ / "second/config.json"))["decay_steps"], 4);
}

// With another number of threads some sums have another order.
TEST_F(TrainConfiguration, GoesOnWithAsManyThreads) {
  const std::string without_threads = "--steps 2 --schedule constant ";
  std::string arguments = tiny_arguments("run", without_threads);
  arguments.erase(arguments.find("--threads 1 "), 12);
  ASSERT_EQ(tiny("run", without_threads + "--threads 3").code, 0);
  const auto threads = [&] { return json::parse(read_bytes(folder_ / "run/config.json"))["threads"]; };
  EXPECT_EQ(threads(), 3);
  arguments.replace(arguments.find("--steps 2"), 9, "--steps 3");
  ASSERT_EQ(run_train(arguments).code, 0);
  EXPECT_EQ(threads(), 3);
  EXPECT_THAT(read_bytes(folder_ / "run/config.toml"), HasSubstr("\n# threads = 3\n"));
  ASSERT_EQ(tiny("run", "--steps 4 --schedule constant --threads 2").code, 0);
  EXPECT_EQ(threads(), 2);
}

TEST_F(TrainConfiguration, CountsStepsAndMicroBatches) {
  const Ending ending = tiny("run", "--ranks 2 --epochs 0.02 --tokens-per-step 130");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("2 ranks x 2 micro-batches x 2 sequences x 16 = 128 tokens,"));
  EXPECT_THAT(ending.output, HasSubstr(" nearest to 130\n"));
  const json config = json::parse(read_bytes(folder_ / "run/config.json"));
  EXPECT_EQ(config["tokens_per_step"], 128);
  EXPECT_EQ(config["micro_batches"], 2);
  EXPECT_EQ(losses_of(folder_ / "run").size(), config["steps"].get<size_t>());
  EXPECT_THAT(ending.output, HasSubstr("the data was seen 0.02 times, as --epochs asks"));
  EXPECT_THAT(read_bytes(folder_ / "run/config.toml"),
              AllOf(HasSubstr("epochs = 0.02"), HasSubstr("tokens_per_step = 130")));
}

TEST_F(TrainConfiguration, ProblemsOfFileFlagsAndDataComeTogether) {
  const std::string file = folder_.write("run.toml", "[training]\nsteps = 0\n[modell]\nwidth = 3\n");
  const Ending ending = tiny("run", "--config " + file + " --clip -1 --warmpu 3 --checkpoint " + (folder_ / "none"));
  EXPECT_EQ(ending.code, 2);
  for (const std::string& problem :
       {file + ":2:9: training.steps is 0; it must be at least 1.", std::string("did you mean [model]?"),
        std::string("--clip is -1; it must be a number above 0."),
        std::string("'--warmpu' is no option of this program; did you mean --warmup?"),
        std::string("none' does not exist"), std::string("5 problems")}) {
    EXPECT_THAT(ending.output, HasSubstr(problem));
  }
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainConfiguration, DryRunWritesNothingAndNeedsNoText) {
  const Ending small = tiny("run", "--ranks 2 --dry-run");
  EXPECT_EQ(small.code, 0);
  for (const char* part : {"parameters", "embeddings", "blocks", "optimizer", "all ranks", "64 tokens", "an epoch"}) {
    EXPECT_THAT(small.output, HasSubstr(part));
  }
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  EXPECT_FALSE(has_control_characters(small.output));
  const Ending large = run_train("--dry-run --model gpt2-xl --ranks 8 --run " + (folder_ / "run"));
  EXPECT_EQ(large.code, 0);
  EXPECT_THAT(large.output, HasSubstr("1,557,611,200"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainConfiguration, SamplesACheckpointOfARun) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2 --prompt And").code, 0);
  const Ending sample = run_train("sample --checkpoint " + (folder_ / "run/step-2"));
  EXPECT_EQ(sample.code, 0) << sample.output;
  EXPECT_THAT(sample.output, StartsWith("And"));
  const Ending greedy = run_train("sample --checkpoint " + (folder_ / "run/step-2") + " --prompt In --temperature 0");
  EXPECT_EQ(greedy.code, 0) << greedy.output;
  EXPECT_THAT(greedy.output, StartsWith("In"));
  const Ending none = run_train("sample --top-k -1 --checkpoint " + (folder_ / "none"));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, AllOf(HasSubstr("none' does not exist"), HasSubstr("--top-k is -1")));
  const Ending other = run_train("sample --width 24 --checkpoint " + (folder_ / "run/step-2"));
  EXPECT_EQ(other.code, 2) << other.output;
}

TEST_F(TrainConfiguration, KnowsItsVersion) { EXPECT_THAT(run_train("--version").output, StartsWith("fsdp-train ")); }

}  // namespace
