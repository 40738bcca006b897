// fsdp-plan scaling MODEL as people start it.
#include <gmock/gmock.h>

#include <sstream>

#include "apps/fsdp-plan/run_plan.h"
#include "files/json.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json scaling_of(const std::string& arguments) {
  const Ending ending = run_plan("scaling " + arguments + " --json");
  EXPECT_EQ(ending.code, 0) << ending.output;
  return fsdp::files::parse_json(ending.output, "scaling");
}

TEST(ScalingProgram, ReachesAHundredThousandRanks) {
  const auto json = scaling_of("llama3-8b --param-dtype bf16 --batch 1");
  ASSERT_EQ(json.at("by_ranks").size(), 6u);
  ASSERT_EQ(json.at("by_hosts").size(), 6u);
  for (const auto& curve : json.at("by_ranks")) {
    EXPECT_EQ(curve.at("points").front().at("ranks"), 8);
    EXPECT_EQ(curve.at("points").back().at("ranks"), 100'000);
    EXPECT_EQ(curve.at("points").size(), 15u);
    EXPECT_FALSE(curve.at("text").get<std::string>().empty());
    for (const auto& bend : curve.at("bends")) EXPECT_GT(bend.at("share"), json.at("noticed"));
    for (const auto& point : curve.at("points")) {
      double all = 0;
      for (const auto& [name, share] : point.at("time").items()) all += share.get<double>();
      EXPECT_NEAR(all, 1, 1e-9);
    }
  }
  // Rings of all ranks end sooner than those of a host.
  const auto rate_at_end = [&](size_t strategy) {
    return json.at("by_ranks")[strategy].at("points").back().at("tflops").get<double>();
  };
  EXPECT_EQ(json.at("by_ranks")[4].at("strategy"), "hybrid-shard");
  EXPECT_LT(rate_at_end(0), rate_at_end(4) / 10);
}

TEST(ScalingProgram, AStrategyAloneHasTheSameCurve) {
  const std::string run = "gpt2 --param-dtype bf16 --most-ranks 256 --devices 16 ";
  const auto all = scaling_of(run), one = scaling_of(run + "--strategy no-shard");
  ASSERT_EQ(one.at("by_ranks").size(), 1u);
  EXPECT_EQ(one.at("by_ranks")[0], all.at("by_ranks")[3]);
  EXPECT_EQ(one.at("by_hosts")[0], all.at("by_hosts")[3]);
}

TEST(ScalingProgram, DdpHasOneStrategy) {
  const auto json = scaling_of("gpt2 --param-dtype bf16 --most-ranks 32 --devices 8 --engine ddp");
  ASSERT_EQ(json.at("by_ranks").size(), 1u);
  EXPECT_EQ(json.at("by_ranks")[0].at("strategy"), "no-shard");
}

TEST(ScalingProgram, SaysThatSmallBatchesComputeMoreSlowly) {
  const std::string run = "scaling gpt2 --param-dtype bf16 --batch 8 --strategy full-shard --most-ranks 64 --devices 8";
  EXPECT_THAT(run_plan(run + " --global-batch 64").output, HasSubstr("With fewer sequences per rank,"));
  EXPECT_THAT(run_plan(run).output, Not(HasSubstr("With fewer sequences per rank,")));
}

TEST(ScalingProgram, SaysWhereCurvesBendAndWhy) {
  const std::string run = "scaling llama3-8b --param-dtype bf16 --batch 1 --strategy shard-grad-op";
  const Ending ending = run_plan(run);
  EXPECT_EQ(ending.code, 0);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("the share of waits for collectives passes 10 % of the"),
                                   HasSubstr("latency, which grows with the ranks."), HasSubstr("A failure every"),
                                   HasSubstr("Most of the difference"), HasSubstr("* does not fit into 84.9 GB")));
  std::istringstream lines(ending.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  // Without failures there is no sentence on them.
  EXPECT_THAT(run_plan(run + " --rank-mtbf inf --host-mtbf inf").output, Not(HasSubstr("A failure every")));
}

TEST(ScalingProgram, RefusesNonsense) {
  const std::pair<const char*, const char*> wrong[] = {
      {"gpt2 --spread 1", "--spread is '1'; it must be a number from 0 to 0.999."},
      {"gpt2 --spread -0.1", "--spread is '-0.1'"},
      {"gpt2 --rank-mtbf 0", "--rank-mtbf is '0'; it must be a number of at least 0.001, or inf."},
      {"gpt2 --host-mtbf nan", "--host-mtbf is 'nan'"},
      {"gpt2 --save-seconds -1", "--save-seconds is '-1'"},
      {"gpt2 --restart-seconds soon", "--restart-seconds is 'soon'"},
      {"gpt2 --most-ranks 2e6", "--most-ranks is '2e6'; it must be a whole number from 1 to 1,048,576."},
      {"gpt2 --most-ranks 7", "--most-ranks is 7; it must be at least the 8 ranks of a host."},
      {"gpt2 --devices 1.5", "--devices is '1.5'"},
      {"gpt2 --global-batch 12", "--global-batch is 12; it must be a multiple of the 8 ranks of a host."},
      {"gpt2 --ranks 8", "--ranks has no place here"},
      {"gpt2 --hosts 1", "--hosts has no place here"},
      {"gpt2 --spread", "--spread needs a value."},
      {"gpt2 --spread 0.1 --spread 0.1", "--spread is given twice."},
      {"gpt2 --engine megatron", "engines that divide the data"},
      {"gpt2 --html page.html", "scaling has no page: leave out --html"},
      {"gpt2 --offload all", "the time of such a run is not simulated"},
      {"gpt2 --sprad 1", "--sprad"},
      {"--spread 0.1", "a model is missing: fsdp-plan scaling MODEL."}};
  for (const auto& [arguments, message] : wrong) {
    const Ending ending = run_plan(std::string("scaling ") + arguments);
    EXPECT_THAT(ending.code, ::testing::AnyOf(1, 2)) << arguments << "\n" << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(message)) << arguments;
  }
}

TEST(ScalingProgram, HelpsWithItsOptions) {
  const Ending ending = run_plan("scaling --help");
  EXPECT_EQ(ending.code, 0);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("Usage: fsdp-plan scaling MODEL [OPTIONS]\n"),
                                   HasSubstr("\n  --global-batch SEQUENCES"), HasSubstr("\n  --rank-mtbf HOURS")));
  EXPECT_THAT(run_plan("man").output, HasSubstr("global\\-batch"));
}

}  // namespace
