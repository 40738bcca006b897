// fsdp-plan MODEL as people start it.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/fsdp-plan/run_plan.h"
#include "files/json.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json plan_of(const std::string& arguments) {
  const Ending ending = run_plan(arguments + " --json");
  EXPECT_EQ(ending.code, 0) << ending.output;
  return fsdp::files::parse_json(ending.output, "plan");
}

TEST(ModelPlan, PrintsOneObjectWithTheAgreedNames) {
  const auto json = plan_of("gpt2-xl --ranks 8 --param-dtype bf16");
  EXPECT_EQ(json.at("parameters"), 1'557'611'200);
  for (const char* name :
       {"parameters", "gradients", "optimizer", "full_parameters", "full_gradients", "activations", "peak"})
    EXPECT_GT(json.at("memory").at(name), 0) << name;
  EXPECT_GT(json.at("communication").at("within_hosts"), 0);
  EXPECT_EQ(json.at("communication").at("across_hosts"), 0);
  for (const char* name : {"step", "compute", "exposed_communication", "idle"})
    EXPECT_GE(json.at("time").at(name), 0) << name;
  EXPECT_EQ(json.at("fits"), true);
}

TEST(ModelPlan, TimesAddUpToTheStep) {
  for (const char* engine : {"libfsdp", "fsdp1", "fsdp2", "ddp", "yafsdp"}) {
    const auto time =
        plan_of(std::string("llama3-8b --ranks 64 --param-dtype bf16 --batch 1 --engine ") + engine).at("time");
    const double step = time.at("step"), compute = time.at("compute");
    EXPECT_NEAR(compute + time.at("exposed_communication").get<double>() + time.at("idle").get<double>(), step, 1e-9)
        << engine;
    EXPECT_GT(compute, step / 2) << engine;
  }
}

TEST(ModelPlan, DividesTheStateAmongTheRanks) {
  const auto optimizer = [](const std::string& arguments) {
    return plan_of("gpt2-xl --param-dtype bf16 " + arguments).at("memory").at("optimizer").get<double>();
  };
  EXPECT_NEAR(optimizer("--ranks 1") / optimizer("--ranks 64"), 64, 0.1);
  EXPECT_EQ(optimizer("--ranks 64 --strategy no-shard"), optimizer("--ranks 1"));
  // Slices of the 8 hosts are padded.
  EXPECT_NEAR(optimizer("--ranks 64 --strategy hybrid-shard") / optimizer("--ranks 8"), 1, 1e-3);
}

TEST(ModelPlan, KnowsTheDevicesMemory) {
  EXPECT_EQ(plan_of("gpt2-xl --ranks 8 --memory 20GB").at("fits"), false);
  EXPECT_EQ(plan_of("gpt2-xl --ranks 8 --memory 200GB").at("fits"), true);
  EXPECT_THAT(run_plan("gpt2-xl --ranks 8 --memory 20GB").output, HasSubstr("does not fit into 20.0 GB"));
}

TEST(ModelPlan, ComparesStrategies) {
  const auto json = plan_of("llama3-8b --ranks 16 --param-dtype bf16 --batch 1 --strategy all");
  EXPECT_EQ(json.size(), 6u);
  EXPECT_LT(json.at("full-shard").at("memory").at("peak"), json.at("no-shard").at("memory").at("peak"));
  std::istringstream lines(run_plan("llama3-8b --ranks 16 --strategy all").output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ModelPlan, SaysItsLimits) {
  const auto limits = plan_of("gpt2-xl --ranks 8 --param-dtype bf16").at("limits");
  EXPECT_GT(limits.at("largest_batch"), 0);
  EXPECT_GT(limits.at("longest_sequence"), 1024);
  EXPECT_EQ(limits.at("cheapest").at("ranks"), 1);
  EXPECT_EQ(limits.at("cheapest").at("dollars_per_hour"), nullptr);
  EXPECT_THAT(run_plan("gpt2-xl --ranks 8 --param-dtype bf16").output,
              AllOf(HasSubstr("\nlimits\n"), HasSubstr("longest sequence"), HasSubstr("--ranks 1")));
}

TEST(ModelPlan, PlansMeshes) {
  const auto json = plan_of(
      "llama2-70b --ranks 64 --tensor-parallel 8 --pipeline-parallel 4 --batch 1 --micro-batches 8 "
      "--param-dtype bf16 --activation-checkpoint all");
  const auto whole = plan_of(
      "llama2-70b --ranks 2 --batch 1 --micro-batches 8 --param-dtype bf16 "
      "--activation-checkpoint all");
  EXPECT_NEAR(whole.at("memory").at("optimizer").get<double>() / json.at("memory").at("optimizer").get<double>(), 32,
              4);
  EXPECT_GT(json.at("communication").at("within_hosts"), 0);
  EXPECT_GT(json.at("time").at("step"), json.at("time").at("compute"));
}

TEST(ModelPlan, TakesTheShapeFromAConfigOfHuggingFace) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
             "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 4096,
             "rms_norm_eps": 1e-05, "tie_word_embeddings": false})";
  EXPECT_EQ(plan_of((folder.path() / "config.json").string() + " --ranks 8").at("parameters"), 6'738'415'616);
}

TEST(ModelPlan, TakesAMachineFromAFile) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "slow.toml").string();
  std::ofstream(file) << "name = \"slow\"\n";
  EXPECT_THAT(run_plan("gpt2 --hardware " + file).output,
              AllOf(HasSubstr("memory is missing."), HasSubstr("compute.product_rate is missing.")));
  EXPECT_THAT(run_plan("gpt2 --hardware h10").output,
              AllOf(HasSubstr("is neither a file nor one of a100-40, a100-80, cpu, h100, h200"),
                    HasSubstr("did you mean h100?")));
}

// fsdp-plan with a program beside it in place of fsdp-calibrate.
class PlanWithSibling {
 public:
  explicit PlanWithSibling(const std::string& script) {
    std::filesystem::copy_file(FSDP_PLAN_PROGRAM, folder_.path() / "fsdp-plan");
    if (script.empty()) return;
    std::ofstream(folder_.path() / "fsdp-calibrate") << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder_.path() / "fsdp-calibrate", std::filesystem::perms::owner_all);
  }
  Ending run(const std::string& arguments) const { return run_command(folder_ / "fsdp-plan" + " " + arguments); }
  std::string file() const { return folder_ / "host.toml"; }

 private:
  TemporaryFolder folder_;
};

TEST(PlanCalibration, WritesAFileThatPlansTake) {
  const PlanWithSibling plan("echo measuring >&2; cat " FSDP_MEASURED_CPU);
  const Ending ending = plan.run("calibrate --output " + plan.file());
  EXPECT_EQ(ending.code, 0);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("measuring\n"), HasSubstr("--hardware " + plan.file())));
  EXPECT_EQ(read_bytes(plan.file()), read_bytes(FSDP_MEASURED_CPU));
  const auto json = plan_of("gpt2 --ranks 2 --hardware " + plan.file());
  EXPECT_GT(json.at("time").at("step"), 0);
  EXPECT_GT(json.at("memory").at("host"), json.at("memory").at("peak"));
  EXPECT_THAT(run_plan("gpt2 --ranks 2 --hardware " + plan.file()).output, HasSubstr("all ranks of a host"));
  EXPECT_THAT(run_plan("gpt2 --ranks 2 --engine fsdp1 --hardware " + plan.file()).output,
              HasSubstr("plans on CPUs are of libfsdp alone"));
  const Ending printed = PlanWithSibling("cat " FSDP_MEASURED_CPU).run("calibrate");
  EXPECT_EQ(printed.output, read_bytes(FSDP_MEASURED_CPU));
}

TEST(PlanCalibration, SaysWhyThereIsNone) {
  const auto expect = [](const std::string& script, const std::string& message) {
    const PlanWithSibling plan(script);
    const Ending ending = plan.run("calibrate --output " + plan.file());
    EXPECT_EQ(ending.code, 1) << script;
    EXPECT_THAT(ending.output, HasSubstr(message)) << script;
    EXPECT_FALSE(std::filesystem::exists(plan.file())) << script;
  };
  expect("", "cannot be started: No such file or directory. It measures this host. Install it beside fsdp-plan.");
  expect("exit 3", "ended with exit code 3, and measured nothing.");
  expect("kill -9 $$", "ended by signal 9");
  expect("echo 'name = \"x\"'", "the figures of this host: memory is missing.");
  expect("grep -v logit_rate " FSDP_MEASURED_CPU, "share.logit_rate is missing.");
  EXPECT_THAT(run_plan("calibrate --output").output, HasSubstr("--output needs a value: --output FILE."));
}

// The real program, which has LibTorch.
TEST(PlanCalibrationAlone, MeasuresThisHost) {
  const TemporaryFolder folder;
  const Ending ending = run_plan("calibrate --quick --output " + folder / "host.toml");
  ASSERT_EQ(ending.code, 0) << ending.output;
  const std::string ranks = std::to_string(std::max(1u, std::thread::hardware_concurrency()));
  const auto time_of = [&](const std::string& dtype) {
    return plan_of("gpt2 --ranks " + ranks + " --param-dtype " + dtype + " --hardware " + folder / "host.toml")
        .at("time");
  };
  EXPECT_GT(time_of("fp32").at("step"), 0);
  const bool has_bf16 = ending.output.find("bf16 is not measured") == std::string::npos;
  EXPECT_EQ(!time_of("bf16").is_null(), has_bf16);
}

TEST(PlanSearch, FindsTheFastestSettingThatFits) {
  const auto json = plan_of("search llama3-8b --ranks 64 --batch 4 --param-dtype bf16 --sequence 4096 --memory 60GB");
  const auto& fitting = json.at("fitting");
  ASSERT_GT(fitting.size(), 3u);
  ASSERT_GT(json.at("too_large").size(), 0u);
  for (size_t i = 0; i < fitting.size(); ++i) {
    EXPECT_LE(fitting[i].at("plan").at("memory").at("peak"), 60e9);
    if (i > 0) EXPECT_GE(fitting[i].at("plan").at("time").at("step"), fitting[i - 1].at("plan").at("time").at("step"));
  }
  for (const auto& setting : json.at("too_large")) EXPECT_GT(setting.at("plan").at("memory").at("peak"), 60e9);
  // The words of a setting are options of a plan with the same figures.
  const std::string options = fitting[0].at("options");
  auto plan = plan_of("llama3-8b --ranks 64 --param-dtype bf16 --sequence 4096 --memory 60GB " + options);
  plan.erase("limits");
  EXPECT_EQ(plan, fitting[0].at("plan"));
}

TEST(PlanSearch, SaysWhyOthersLose) {
  const Ending ending = run_plan("search llama3-8b --ranks 64 --batch 4 --param-dtype bf16");
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("\nthe fastest\n    --strategy "), HasSubstr("\nrunners-up\n    --strategy "),
                    HasSubstr(" % slower: "), HasSubstr("\ntoo large\n")));
  std::istringstream lines(ending.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(run_plan("search llama3-8b --ranks 8 --offload all").output, HasSubstr("is not simulated"));
  EXPECT_THAT(run_plan("search").output, HasSubstr("a model is missing: fsdp-plan search MODEL."));
}

TEST(PlanSearch, ChoosesANumberOfRanksAndCountsTheRun) {
  const auto json = plan_of("search gpt2 --ranks 2,4 --batch 2 --strategy full-shard --tokens 1B --for money");
  const auto& best = json.at("fitting").at(0);
  EXPECT_EQ(best.at("run").at("dollars"), nullptr);  // the machine has no price
  const double step = best.at("plan").at("time").at("step"), tokens = 2 * 2 * 1024;
  EXPECT_NEAR(best.at("run").at("seconds").get<double>() / (1e9 / tokens * step), 1, 1e-4);
  EXPECT_NEAR(best.at("run").at("device_hours").get<double>(),
              best.at("run").at("seconds").get<double>() * best.at("ranks").get<double>() / 3600, 1e-6);
  EXPECT_THAT(run_plan("search gpt2 --ranks 2,4 --batch 2 --strategy full-shard --tokens 1B --for money").output,
              AllOf(HasSubstr("\nthe cheapest\n"), HasSubstr(" device hours")));
  const Ending wrong = run_plan("search gpt2 --ranks 2,x --tokens none --for fun");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, AllOf(HasSubstr("--ranks is '2,x'"), HasSubstr("--tokens is 'none'"),
                                  HasSubstr("--for is 'fun'; it must be time or money.")));
  EXPECT_THAT(run_plan("search --help").output, AllOf(HasSubstr("--for GOAL"), HasSubstr("--tokens COUNT")));
}

TEST(PlanSearch, TakesCpusWithoutMeshes) {
  const std::string cpus = " --ranks 2 --batch 4 --hardware " FSDP_MEASURED_CPU;
  const auto json = plan_of("search gpt2" + cpus);
  const auto& fitting = json.at("fitting");
  ASSERT_GT(fitting.size(), 1u);
  for (const auto& setting : fitting) {
    EXPECT_GT(setting.at("plan").at("time").at("step"), 0);
    EXPECT_THAT(setting.at("options").get<std::string>(), Not(HasSubstr("-parallel")));
  }
  EXPECT_EQ(plan_of("gpt2 --pipeline-parallel 2" + cpus).at("time"), nullptr);
  EXPECT_THAT(run_plan("search gpt2 --pipeline-parallel 2" + cpus).output,
              HasSubstr("search: the time of such a run in fp32 is not known for hardware "));
}

TEST(PlanSearch, ComparesNumbersOfRanksThatShareTheState) {
  const auto json = plan_of("compare llama2-7b --ranks 32 --batch 1 --param-dtype bf16");
  const auto of_fsdp = plan_of("compare llama2-7b --ranks 32 --batch 1 --param-dtype bf16 --engine fsdp1");
  EXPECT_NEAR(of_fsdp.at("full-shard over 2").at("memory").at("optimizer").get<double>() /
                  of_fsdp.at("full-shard over 16").at("memory").at("optimizer").get<double>(),
              8, 1e-9);
  for (const char* name : {"full-shard", "no-shard", "full-shard over 2", "full-shard over 16"})
    EXPECT_TRUE(json.contains(name)) << name;
  EXPECT_GT(json.at("full-shard over 2").at("memory").at("peak"),
            json.at("full-shard over 16").at("memory").at("peak"));
}

TEST(ModelPlan, RefusesNonsense) {
  const std::pair<const char*, const char*> wrong[] = {
      {"gpt2 --ranks 0", "--ranks"},
      {"gpt2 --ranks 12 --hosts 5", "--hosts 5 does not divide --ranks 12"},
      {"gpt2 --ranks 8 --strategy full-shard --shard-group-size 3", "group"},
      {"gpt2 --engine fsdp3", "did you mean fsdp"},
      {"gpt2 --memory -3", "--memory is '-3'"},
      {"gpt2 --layers 0", "--layers"},
      {"no-such-model", "no-such-model"},
      {"gpt2 --ranks 1000000000000000000", "--ranks"},
      {"bert-large --engine megatron --pipeline-parallel 5 --ranks 5", "layers"}};
  for (const auto& [arguments, message] : wrong) {
    const Ending ending = run_plan(arguments);
    EXPECT_THAT(ending.code, ::testing::AnyOf(1, 2)) << arguments << "\n" << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(message)) << arguments;
  }
}

}  // namespace
