// A run folder as a stranger, a flipped bit or a mistake may have left it: the program says what is wrong, and loses
// nothing of it.
#include <gmock/gmock.h>

#include <filesystem>
#include <tuple>

#include "apps/columns.h"
#include "apps/fsdp-train/train_program.h"
#include "support/sealed_manifest.h"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

class TrainHostile : public TrainProgram {
 protected:
  std::string replaced(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = read_bytes(folder_ / path);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return folder_.write(path, text);
  }
  // With a hash that fits: the hash is not what finds it.
  void replaced_in_manifest(const std::string& path, const std::string& from, const std::string& to) {
    folder_.write(path, sealed_manifest(read_bytes(replaced(path, from, to))));
  }
};

TEST_F(TrainHostile, DoesNotGoOnFromACheckpointOfAnotherStepThanItsName) {
  ASSERT_EQ(tiny("run", "--steps 4").code, 0);
  const std::string record = read_bytes(folder_ / "run/metrics.jsonl");
  const std::string settings = read_bytes(folder_ / "run/config.toml");
  fs::rename(folder_ / "run/step-4", folder_ / "run/step-2");
  const Ending renamed = tiny("run", "--steps 8");
  EXPECT_EQ(renamed.code, 2) << renamed.output;
  EXPECT_THAT(renamed.output, AllOf(HasSubstr("step-2' is damaged"), HasSubstr("its manifest says step 4")));
  fs::rename(folder_ / "run/step-2", folder_ / "run/step-4");
  for (const char* step : {"0", "-4", "5", "\"4\"", "99999999999999999999"}) {
    const std::string manifest = read_bytes(folder_ / "run/step-4/manifest.json");
    replaced_in_manifest("run/step-4/manifest.json", "\"step\": 4", std::string("\"step\": ") + step);
    const Ending ending = tiny("run", "--steps 8");
    EXPECT_EQ(ending.code, 2) << step << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("step-4")) << step;
    folder_.write("run/step-4/manifest.json", manifest);
  }
  EXPECT_EQ(read_bytes(folder_ / "run/metrics.jsonl"), record);
  EXPECT_EQ(read_bytes(folder_ / "run/config.toml"), settings);
  EXPECT_EQ(tiny("run", "--steps 6").code, 0);
  EXPECT_EQ(losses_of(folder_ / "run").size(), 6u);
}

TEST_F(TrainHostile, GoesOnFromACheckpointWithANameOfItsOwn) {
  ASSERT_EQ(tiny("run", "--steps 4").code, 0);
  fs::rename(folder_ / "run/step-4", folder_ / "run/best");
  EXPECT_EQ(tiny("other", "--steps 6 --checkpoint " + (folder_ / "run/best")).code, 0);
}

TEST_F(TrainHostile, SetsTheRecordOfARunWithoutACheckpointAside) {
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  const std::string record = read_bytes(folder_ / "run/metrics.jsonl");
  fs::remove_all(folder_ / "run/step-2");
  const Ending again = tiny("run", "--steps 2");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("metrics.jsonl.before-1"));
  EXPECT_EQ(read_bytes(folder_ / "run/metrics.jsonl.before-1"), record);
  EXPECT_EQ(losses_of(folder_ / "run").size(), 2u);
}

TEST_F(TrainHostile, SavesWhereADamagedCheckpointLies) {
  ASSERT_EQ(tiny("run", "--steps 6 --save-every 4").code, 0);
  folder_.write("run/step-6/manifest.json", "{\"form");
  const Ending again = tiny("run", "--steps 6 --save-every 4");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("step-6 cannot be loaded"));
  EXPECT_EQ(read_bytes(folder_ / "run/step-6.set-aside-1/manifest.json"), "{\"form");
  EXPECT_THAT(tiny("run", "--steps 6").output, HasSubstr("all 6 steps are done"));
}

TEST_F(TrainHostile, RefusesNotesThatNoRunWrote) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2").code, 0);
  const std::string manifest = read_bytes(folder_ / "run/step-2/manifest.json");
  for (const char* count : {"-1", "1e9", "99999999999999999999"}) {
    folder_.write("run/step-2/manifest.json", manifest);
    replaced_in_manifest("run/step-2/manifest.json", "\"validations_since_best\": \"0\"",
                         std::string("\"validations_since_best\": \"") + count + "\"");
    const Ending ending = tiny("run", "--ranks 2 --steps 4");
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("damaged"));
  }
  EXPECT_EQ(losses_of(folder_ / "run").size(), 2u);
}

// A converted checkpoint has none.
TEST_F(TrainHostile, SaysThatSettingsAreNotComparedWhereNotesDoNotNameThem) {
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  const std::string manifest = read_bytes(folder_ / "run/step-2/manifest.json");
  replaced_in_manifest("run/step-2/manifest.json", "\"settings\": ", "\"no settings\": ");
  const Ending without_settings = tiny("run", "--steps 4");
  EXPECT_EQ(without_settings.code, 0) << without_settings.output;
  EXPECT_THAT(without_settings.output,
              HasSubstr("run/step-2; its notes do not say with which settings it was trained"));
  for (const auto& [from, to, place] : {std::tuple("\"notes\": ", "\"no notes\": ", "found nothing for 'notes'"),
                                        std::tuple("\"optimizer.step\": 2.0", "\"optimizer.step\": -1.0",
                                                   "found -1.0 for 'parameters[0].scalars.optimizer.step'")}) {
    fs::remove_all(folder_ / "run/step-4");
    folder_.write("run/step-2/manifest.json", manifest);
    replaced_in_manifest("run/step-2/manifest.json", from, to);
    const Ending ending = tiny("run", "--steps 4");
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output, AllOf(HasSubstr("run/step-2/manifest.json is damaged"), HasSubstr(place)));
  }
}

TEST_F(TrainHostile, WritesNothingThroughALink) {
  const std::string precious = folder_.write("precious", "text");
  for (const char* name : {"metrics.jsonl", "lock"}) {
    fs::create_directory(folder_ / "run");
    fs::create_symlink(precious, folder_.path() / "run" / name);
    const Ending ending = tiny("run", "--steps 2");
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("symbolic link")) << name;
    fs::remove_all(folder_ / "run");
  }
  folder_.write("run/metrics.jsonl", "");
  fs::create_directory(folder_ / "run/model");
  fs::create_directory(folder_ / "run/traces");
  const std::vector<std::string> written = {"config.json", "config.toml",       "tokenizer.json",
                                            "sample.txt",  "model/config.json", "traces/steps-1-1.json"};
  for (const std::string& name : written) fs::create_symlink(precious, folder_.path() / "run" / name);
  const Ending ending = tiny("run", "--steps 2 --export --trace-steps 1..1");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_EQ(read_bytes(precious), "text");
  for (const std::string& name : {"config.json", "config.toml", "sample.txt", "model/config.json"}) {
    EXPECT_FALSE(fs::is_symlink(folder_.path() / "run" / name)) << name;
  }
}

TEST_F(TrainHostile, SamplesOnAsManyRanksAsThereAreShards) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2").code, 0);
  const std::string sample = "sample --sample-length 5 --checkpoint " + (folder_ / "run/step-2");
  EXPECT_EQ(run_train(sample).code, 0);
  const std::string manifest = read_bytes(folder_ / "run/step-2/manifest.json");
  for (const auto& [shards, message] : {std::pair{"1000000", "expected a whole number from 1 to 1024"},
                                        std::pair{"512", "shard-00001-of-00512.safetensors', one of 512"}}) {
    folder_.write("run/step-2/manifest.json", manifest);
    replaced_in_manifest("run/step-2/manifest.json", "\"shards\": 2", std::string("\"shards\": ") + shards);
    const Ending ending = run_train(sample);
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(message));
  }
}

TEST_F(TrainHostile, PrintsNoEscapesOfNames) {
  const std::string name = "\033]0;owned\007\033[2J";
  const Ending ending = tiny("'run" + name + "'", "--ranks 2 --steps 2 --sample-every 1");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_FALSE(has_control_characters(ending.output)) << ending.output;
  const std::string quoted = "'" + (folder_ / ("run" + name)) + "'";
  const std::string rest = " --text " + text_ + " --context 16 --width 16 --layers 2 --heads 2 --batch 2 --steps 2";
  for (const std::string& arguments :
       {"--run " + quoted + rest, "report " + quoted, "report " + (folder_ / "none") + quoted,
        "sample --checkpoint " + quoted, "--config " + quoted, "'--" + name + "'", "'" + name + "'",
        "--run " + quoted + rest + " --dry-run", "--model " + quoted + " --dry-run"}) {
    const Ending one = run_train(arguments);
    EXPECT_FALSE(has_control_characters(one.output)) << one.output;
    EXPECT_THAT(one.output, Not(IsEmpty()));
  }
}

TEST_F(TrainHostile, CountsNoFurtherThanNumbersGo) {
  const std::string huge = " --context 65536 --batch 65536 --micro-batches 65536 --ranks 1024 --steps 1000000000";
  const Ending ending = run_train("--dry-run" + huge);
  EXPECT_EQ(ending.code, 2) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("more than can be counted"));
  const Ending large = run_train(
      "--dry-run --model llama-tiny --width 65536 --heads 64 --key-value-heads 64 --layers 4096 --mlp-width 1048576 "
      "--vocabulary 16777216 --ranks 1024 --strategy no-shard --steps 10 --batch 1 --param-dtype bf16");
  EXPECT_EQ(large.code, 0) << large.output;
  EXPECT_THAT(large.output, AllOf(Not(ContainsRegex(" -[0-9]")), HasSubstr("> 9 EB")));
  const Ending epochs = tiny("run", "--epochs 1e308");
  EXPECT_EQ(epochs.code, 2) << epochs.output;
  EXPECT_THAT(epochs.output, HasSubstr("--epochs is 1e+308; it must be a number above 0, and at most 1e9."));
  const Ending patient =
      run_train(tiny_arguments("patient", "--ranks 2 --steps 1 --save-minutes 1e308 --timeout 1000000000"));
  EXPECT_EQ(patient.code, 0) << patient.output;
}

}  // namespace
