// fsdp-train with every strategy, and in 16 bits.
#include <gmock/gmock.h>

#include <algorithm>

#include "apps/fsdp-train/train_program.h"
#include "support/sealed_manifest.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TrainSharding : public TrainProgram {
 protected:
  std::vector<double> losses(const std::string& run, const std::string& more) {
    const Ending ending = tiny(run, more);
    EXPECT_EQ(ending.code, 0) << ending.output;
    return losses_of(folder_ / run);
  }
};

TEST_F(TrainSharding, GivesTheSameLossesWithEveryStrategy) {
  const std::vector<double> expected = losses("default", "--ranks 2 --steps 6");
  ASSERT_EQ(expected.size(), 6u);
  for (const char* strategy : {"full-shard", "shard-grad-op", "shard-optimizer", "no-shard", "hybrid-shard",
                               "hybrid-shard-grad-op", "hybrid-shard --shard-group-size 1"}) {
    SCOPED_TRACE(strategy);
    fs::remove_all(folder_ / "run");
    EXPECT_EQ(losses("run", std::string("--ranks 2 --steps 6 --strategy ") + strategy), expected);
  }
}

TEST_F(TrainSharding, GivesTheSameLossesAndWeightsWithRecomputation) {
  const std::string job = "--ranks 2 --steps 4 --layers 3 --dropout 0.1 --export ";
  const std::vector<double> expected = losses("plain", job);
  for (const char* layers : {"all", "2", "selective"}) {
    SCOPED_TRACE(layers);
    EXPECT_EQ(losses(layers, job + "--activation-checkpoint " + layers), expected);
    EXPECT_EQ(read_bytes(folder_ / (std::string(layers) + "/model/model.safetensors")),
              read_bytes(folder_ / "plain/model/model.safetensors"));
  }
  EXPECT_EQ(json::parse(read_bytes(folder_ / "2/config.json"))["activation_checkpoint"], "2");
}

TEST_F(TrainSharding, GivesTheSameLossesAndWeightsWithUnitsOfSeveralLayers) {
  const std::string job = "--schedule constant --layers 5 --dropout 0.1 --export --steps 4 ";
  const std::vector<double> expected = losses("plain", job + "--ranks 2");
  const auto expect_equal = [&](const std::string& run, const std::string& more, const std::string& ranks = "2") {
    SCOPED_TRACE(more);
    EXPECT_EQ(losses(run, job + more + " --ranks " + ranks), expected);
    EXPECT_EQ(read_bytes(folder_ / (run + "/model/model.safetensors")),
              read_bytes(folder_ / "plain/model/model.safetensors"));
  };
  expect_equal("two", "--layers-per-unit 2");
  expect_equal("three", "--layers-per-unit 3 --strategy shard-grad-op --activation-checkpoint 2");
  expect_equal("all", "--layers-per-unit 100 --buffers 3 --prefetch 2");
  expect_equal("stages", "--layers-per-unit 2 --pipeline-parallel 2", "4");
  EXPECT_EQ(json::parse(read_bytes(folder_ / "two/config.json"))["layers_per_unit"], 2);
  // A run may go on with other units.
  losses("resumed", "--ranks 2 --schedule constant --layers 5 --dropout 0.1 --steps 2 --layers-per-unit 2");
  expect_equal("resumed", "--resume auto");
}

// On CPUs nothing changes.
TEST_F(TrainSharding, GivesTheSameLossesWithItsStateOnTheCpu) {
  const std::vector<double> expected = losses("plain", "--ranks 2 --steps 4");
  const Ending ending = tiny("offloaded", "--ranks 2 --steps 4 --cpu-offload");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("shards and the optimizer's state in the host's memory"));
  EXPECT_EQ(losses_of(folder_ / "offloaded"), expected);
  EXPECT_EQ(json::parse(read_bytes(folder_ / "offloaded/config.json"))["cpu_offload"], true);
}

TEST_F(TrainSharding, GivesTheSameLossesWithinABudgetOfActivations) {
  const std::string job = "--ranks 2 --steps 4 --layers 3 --dropout 0.1 --export ";
  const auto peaks = [&](const std::string& run) {
    std::vector<int64_t> bytes;
    for (const json& step : metrics_of(folder_ / run)) {
      if (step.contains("memory")) bytes.push_back(step["memory"]["activations"]);
    }
    return bytes;
  };
  const std::vector<double> expected = losses("plain", job);
  ASSERT_EQ(losses("least", job + "--activation-checkpoint all"), expected);
  const int64_t most = std::ranges::max(peaks("plain")), least = std::ranges::max(peaks("least"));
  ASSERT_LT(least, most);
  for (const int64_t budget : {least, (least + most) / 2, most}) {
    SCOPED_TRACE(budget);
    const std::string run = "run-" + std::to_string(budget);
    const Ending ending = tiny(run, job + "--activation-memory " + std::to_string(budget));
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("step 2: activations take "));
    EXPECT_EQ(losses_of(folder_ / run), expected);
    EXPECT_LE(std::ranges::max(peaks(run)), budget);
    EXPECT_EQ(read_bytes(folder_ / (run + "/model/model.safetensors")),
              read_bytes(folder_ / "plain/model/model.safetensors"));
  }
  EXPECT_EQ(peaks("run-" + std::to_string(most)).back(), most);
  // Before anything is made.
  const Ending refused = tiny("refused", job + "--activation-memory " + std::to_string(least - 1));
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("expected at least " + std::to_string(least)));
  EXPECT_FALSE(fs::exists(folder_ / "refused"));
}

TEST_F(TrainSharding, GivesTheSameLossesFromFiles) {
  const std::vector<double> expected = losses("default", "--ranks 2 --steps 6");
  for (const std::string& offload : {std::string("optimizer"), "all --offload-directory " + (folder_ / "files")}) {
    SCOPED_TRACE(offload);
    fs::remove_all(folder_ / "run");
    EXPECT_EQ(losses("run", "--ranks 2 --steps 6 --offload " + offload), expected);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "files"));
  EXPECT_FALSE(fs::exists(folder_ / "run/offload"));
  // From where a run in memory stopped.
  ASSERT_EQ(tiny("half", "--ranks 2 --steps 6 --save-every 3").code, 0);
  const std::string rest = "--ranks 2 --steps 6 --offload all --checkpoint " + (folder_ / "half/step-3");
  EXPECT_EQ(losses("rest", rest), std::vector<double>(expected.begin() + 3, expected.end()));
  EXPECT_TRUE(fs::is_empty(folder_ / "rest/offload"));
}

TEST_F(TrainSharding, GivesTheSameLossesWithActivationsInFiles) {
  const std::string job = "--ranks 2 --steps 3 --context 64 --width 64 --batch 16";
  const std::vector<double> expected = losses("default", job);
  for (const std::string& more : {std::string(), std::string(" --activation-checkpoint all --offload all")}) {
    SCOPED_TRACE(more);
    fs::remove_all(folder_ / "run");
    EXPECT_EQ(losses("run", job + " --offload-activations" + more), expected);
    const json memory = metrics_of(folder_ / "run").back()["memory"];
    EXPECT_GE(memory["activations in files"], 2 * 16 * 64 * 64 * 4);  // of each layer its input
    EXPECT_EQ(memory.contains("state in files"), !more.empty());
    EXPECT_EQ(memory["parameters"] == 0, !more.empty());
    EXPECT_TRUE(fs::is_empty(folder_ / "run/offload"));
  }
}

TEST_F(TrainSharding, ShowsItsSettings) {
  const Ending ending =
      tiny("run", "--ranks 2 --steps 1 --strategy shard-grad-op --shard-group-size 1 --reduce-dtype bf16");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("shard-grad-op in groups of 1 rank\n"));
  EXPECT_THAT(ending.output, HasSubstr("parameters fp32, gradients between ranks bf16"));
  const json config = json::parse(read_bytes(folder_ / "run/config.json"));
  EXPECT_EQ(config["strategy"], "shard-grad-op");
  EXPECT_EQ(config["shard_group_size"], 1);
  EXPECT_EQ(config["param_dtype"], "fp32");
  EXPECT_EQ(config["reduce_dtype"], "bf16");
}

TEST_F(TrainSharding, LearnsIn16Bits) {
  const std::vector<double> fp32 = losses("fp32", "--ranks 2 --steps 40 --lr 0.01");
  for (const char* dtype : {"bf16", "fp16"}) {
    SCOPED_TRACE(dtype);
    const std::string run = dtype;
    const std::vector<double> found =
        losses(run, "--ranks 2 --steps 40 --lr 0.01 --param-dtype " + run + " --reduce-dtype " + run);
    EXPECT_NE(found, fp32);
    EXPECT_LT(found.back(), found.front() - 1.5);
    EXPECT_EQ(metrics_of(folder_ / run)[0].contains("loss_scale"), run == "fp16");
  }
}

// With one byte per rank and step, the first loss scale is more than fp16 gradients have room for.
const std::string kOverflowing = "--ranks 2 --param-dtype fp16 --context 1 --batch 1 --log-every 1 ";

TEST_F(TrainSharding, SkipsAndShowsStepsWhoseGradientsAreNotFinite) {
  const Ending ending = tiny("run", kOverflowing + "--steps 8");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("skipped at loss scale 65536"));
  const std::vector<json> records = metrics_of(folder_ / "run");
  ASSERT_EQ(records.size(), 8u);
  EXPECT_EQ(records[0]["skipped"], true);
  EXPECT_EQ(records[0]["loss_scale"], 65536);
  EXPECT_EQ(records[1]["loss_scale"], 32768);
  EXPECT_EQ(records[7]["skipped"], false);
  EXPECT_TRUE(records[7]["grad_norm"].is_number());
}

TEST_F(TrainSharding, GoesOnWithTheLossScaleOfItsCheckpoint) {
  const std::vector<double> whole = losses("whole", kOverflowing + "--steps 8 --save-every 4");
  const std::string checkpoint = folder_ / "whole/step-4";
  const std::vector<double> rest = losses("rest", kOverflowing + "--steps 8 --checkpoint " + checkpoint);
  EXPECT_EQ(rest, std::vector<double>(whole.begin() + 4, whole.end()));
  EXPECT_LT(metrics_of(folder_ / "rest")[0]["loss_scale"], 65536);

  auto manifest = nlohmann::ordered_json::parse(read_bytes(checkpoint + "/manifest.json"));
  manifest["notes"]["finite_steps"] = "many";
  folder_.write("whole/step-4/manifest.json", sealed_manifest(manifest.dump(2)));
  const Ending ending = tiny("damaged", kOverflowing + "--steps 8 --checkpoint " + checkpoint);
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, HasSubstr("note 'finite_steps' is damaged: found 'many'"));
}

TEST_F(TrainSharding, RefusesWhatCannotBeTogether) {
  const Ending wrong =
      tiny("run", "--strategy zero --param-dtype fp8 --reduce-dtype int8 --ranks 4 --shard-group-size 3");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("4 problems"));
  EXPECT_THAT(wrong.output, HasSubstr("--strategy is 'zero'; it must be one of full-shard, shard-grad-op, "));
  EXPECT_THAT(wrong.output, HasSubstr("--param-dtype is 'fp8'; it must be one of fp32, bf16, fp16."));
  EXPECT_THAT(wrong.output, HasSubstr("--reduce-dtype is 'int8'; it must be one of fp32, bf16, fp16."));
  EXPECT_THAT(wrong.output, HasSubstr("--shard-group-size 3 does not divide --ranks 4."));
  EXPECT_THAT(tiny("run", "--ranks 2 --strategy no-shard --shard-group-size 2").output,
              HasSubstr("--shard-group-size is 2 with --strategy no-shard, which shards nothing."));
  // A launcher may have started any number of ranks: with one alone it is the rank that finds out.
  const Ending alone = tiny("run", "--shard-group-size 2");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.output, HasSubstr("found shard_group_size 2 on 1 ranks"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
