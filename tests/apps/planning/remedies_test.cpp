// Changes that let a run fit, each with the memory that a plan with these changes has.
#include "planning/remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model_sizes.h"
#include "options/contradictions.h"
#include "planning/host_memory.h"

namespace trainer {
namespace {

using testing::Contains;
using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr double kGigabyte = 1e9;

RunPlan planned(const char* model, int64_t ranks) {
  RunPlan plan;
  plan.options.model = *models::config_of_size(model);
  plan.options.model_options.model = model;
  plan.options.ranks = ranks;
  return plan;
}

// The memory of the plan with some of its options changed.
template <typename Change>
double bytes_with(RunPlan plan, Change change) {
  change(plan.options);
  return host_bytes(plan);
}

std::vector<std::string> changes(const std::vector<Remedy>& remedies) {
  std::vector<std::string> texts;
  for (const Remedy& remedy : remedies) texts.push_back(remedy.change);
  return texts;
}

const Remedy* find(const std::vector<Remedy>& remedies, const std::string& change) {
  for (const Remedy& remedy : remedies) {
    if (remedy.change == change) return &remedy;
  }
  return nullptr;
}

TEST(HostMemory, IsWhatAllRanksHoldAndTheirProcesses) {
  RunPlan plan = planned("llama-1b", 4);
  const double model = host_bytes(plan);
  plan.host = {.process_bytes = 100, .program_bytes = 7};
  EXPECT_EQ(host_bytes(plan), model + 4 * 100 + 7);
  const HostMemory memory = host_memory(plan, parts_of(plan.options.model));
  ASSERT_EQ(memory.model.size(), 4u);
  double sum = 407 + 4 * (memory.activations + memory.temporary);
  for (const fsdp::plan::StateMemory& rank : memory.model) sum += static_cast<double>(rank.total());
  EXPECT_EQ(memory.total(), sum);
}

// But for the angles of the positions, and with fewer logits than the loss has room for.
TEST(HostMemory, OfActivationsIsInProportionToTheTokensOfAMicroBatch) {
  RunPlan plan = planned("llama-1b", 1);
  plan.options.model.vocabulary = 1000;
  auto activations = [&](int64_t batch, int64_t context) {
    RunPlan other = plan;
    other.options.batch = batch;
    other.options.model.context = context;
    return host_memory(other, parts_of(other.options.model)).activations;
  };
  EXPECT_NEAR(activations(8, 1024), 8 * activations(1, 1024), 1e-3 * activations(8, 1024));
  EXPECT_NEAR(activations(8, 1024), activations(1, 8192), 1e-3 * activations(8, 1024));
}

TEST(Remedies, HaveTheMemoryOfAPlanWithTheirFlags) {
  const RunPlan plan = planned("gpt2", 4);
  const std::vector<Remedy> found = remedies(plan, 0.8 * host_bytes(plan));
  const Remedy* batch = find(found, "--batch 4 --micro-batches 2");
  ASSERT_NE(batch, nullptr) << testing::PrintToString(changes(found));
  EXPECT_EQ(batch->bytes, bytes_with(plan, [](RunOptions& options) { options.batch = 4, options.micro_batches = 2; }));
  const Remedy* dtype = find(found, "--param-dtype bf16");
  ASSERT_NE(dtype, nullptr);
  EXPECT_EQ(dtype->bytes, bytes_with(plan, [](RunOptions& options) { options.param_dtype = "bf16"; }));
  const Remedy* context = find(found, "--context 512");
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->bytes, bytes_with(plan, [](RunOptions& options) { options.model.context = 512; }));
}

TEST(Remedies, LetTrainingWaitForSavesFirst) {
  RunPlan plan = planned("gpt2", 2);
  plan.options.batch = 1;
  const double without = host_bytes(plan);
  plan.options.save_every = 100;
  const std::vector<Remedy> found = remedies(plan, without);
  EXPECT_EQ(changes(found).front(), "--save-sync");
  EXPECT_EQ(found.front().bytes, without);
  EXPECT_GT(host_bytes(plan), without);
}

TEST(Remedies, PutStateInFiles) {
  RunPlan plan = planned("llama-1b", 1);
  plan.options.model.context = 1024;
  plan.options.batch = 1;
  const std::vector<Remedy> found = remedies(plan, 1);
  const Remedy* state = find(found, "--offload all");
  ASSERT_NE(state, nullptr) << testing::PrintToString(changes(found));
  EXPECT_EQ(state->bytes, bytes_with(plan, [](RunOptions& options) { options.offload = "all"; }));
  EXPECT_THAT(changes(remedies(plan, 0.99 * host_bytes(plan))), Contains("--offload optimizer"));
  plan.options.offload = "all";
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr("--offload"))));
}

TEST(Remedies, PutActivationsInFiles) {
  RunPlan plan = planned("gpt2", 1);
  const std::string change = "--offload-activations";
  const std::vector<Remedy> found = remedies(plan, 1);
  const Remedy* activations = find(found, change);
  ASSERT_NE(activations, nullptr) << testing::PrintToString(changes(found));
  EXPECT_EQ(activations->bytes, bytes_with(plan, [](RunOptions& options) { options.offload_activations = true; }));
  plan.options.offload_activations = true;
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr(change))));
}

TEST(Remedies, RunLayersAgain) {
  RunPlan plan = planned("gpt2", 1);
  const auto bytes_of = [&](const char* layers) {
    return bytes_with(plan, [&](RunOptions& options) { options.activation_checkpoint = layers; });
  };
  const std::string change = "--activation-checkpoint";
  for (const char* layers : {"selective", "all"}) {
    const std::vector<Remedy> found = remedies(plan, bytes_of(layers));
    const Remedy* recomputation = find(found, change + " " + layers);
    ASSERT_NE(recomputation, nullptr) << testing::PrintToString(changes(found));
    EXPECT_EQ(recomputation->bytes, bytes_of(layers));
  }
  plan.options.activation_checkpoint = "5";
  EXPECT_THAT(changes(remedies(plan, 1)), Contains(change + " all"));
  plan.options.activation_checkpoint = "all";
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr(change))));
  plan.options.activation_checkpoint = "none";
  plan.options.activation_memory = 1e9;  // decides itself
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr(change))));
}

TEST(Remedies, AreNothingThatTheProgramRefuses) {
  RunPlan plan = planned("gpt2", 2);
  plan.options.activation_memory = 1e9;
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr("--offload-activations"))));
  plan.options.activation_memory.reset();
  plan.options.max_restarts = 1;
  plan.options.hot_restart = true;
  ASSERT_THAT(contradictions(plan.options), IsEmpty());
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr("--offload"))));
}

TEST(Remedies, KeepMomentsInFewerBits) {
  RunPlan plan = planned("gpt2-xl", 2);
  const std::vector<Remedy> found = remedies(plan, 1);
  const Remedy* moments = find(found, "--optimizer-state 8bit");
  ASSERT_NE(moments, nullptr) << testing::PrintToString(changes(found));
  EXPECT_EQ(moments->bytes, bytes_with(plan, [](RunOptions& options) { options.optimizer_state = "8bit"; }));
}

TEST(Remedies, GoAsFarAsTheyMust) {
  const RunPlan plan = planned("gpt2", 2);
  auto with_batch = [&](int64_t batch) {
    return bytes_with(plan, [&](RunOptions& options) { options.batch = batch, options.micro_batches = 8 / batch; });
  };
  EXPECT_THAT(changes(remedies(plan, with_batch(4))), Contains("--batch 4 --micro-batches 2"));
  EXPECT_THAT(changes(remedies(plan, with_batch(2))), Contains("--batch 2 --micro-batches 4"));
  EXPECT_THAT(changes(remedies(plan, with_batch(1))), Contains("--batch 1 --micro-batches 8"));
  EXPECT_THAT(changes(remedies(plan, 1)), Contains("--batch 1 --micro-batches 8"));
}

TEST(Remedies, KeepTheTokensOfAStep) {
  RunPlan plan = planned("gpt2", 6);
  plan.options.batch = 6;
  const std::vector<std::string> found = changes(remedies(plan, 1));
  EXPECT_THAT(found, Contains("--batch 1 --micro-batches 6"));
  EXPECT_THAT(found, Contains("--ranks 1 --micro-batches 6"));
  plan.options.target_tokens_per_step = 36 * 1024;  // micro-batches follow
  EXPECT_THAT(changes(remedies(plan, 1)), Contains("--batch 1"));
}

TEST(Remedies, NameAStrategyThatHoldsLess) {
  RunPlan plan = planned("llama-1b", 8);
  plan.options.model.context = 512;
  plan.options.batch = 1;
  EXPECT_THAT(changes(remedies(plan, 1)), Not(Contains(testing::HasSubstr("--strategy"))));
  plan.options.strategy = "no-shard";
  const std::vector<Remedy> found = remedies(plan, 0.9 * host_bytes(plan));
  const Remedy* strategy = find(found, "--strategy full-shard");
  ASSERT_NE(strategy, nullptr) << testing::PrintToString(changes(found));
  EXPECT_EQ(strategy->bytes, bytes_with(plan, [](RunOptions& options) { options.strategy = "full-shard"; }));
  plan.options.strategy = "hybrid-shard";
  plan.options.shard_group_size = 2;
  EXPECT_THAT(changes(remedies(plan, 1)), Contains("--strategy full-shard --shard-group-size 0"));
}

TEST(Remedies, CountTheHostsThatAreEnough) {
  RunPlan plan = planned("llama-8b", 8);
  plan.options.model.context = 2048;
  plan.options.batch = 1;
  auto bytes_on = [&](int64_t hosts) {
    RunPlan other = plan;
    other.hosts = hosts;
    other.options.ranks = 8 * hosts;
    return host_bytes(other);
  };
  EXPECT_LT(bytes_on(4), bytes_on(2));
  const std::vector<Remedy> found = remedies(plan, bytes_on(4));
  const Remedy* hosts = find(found, "4 hosts of 8 ranks each");
  ASSERT_NE(hosts, nullptr) << testing::PrintToString(changes(found));
  EXPECT_EQ(hosts->bytes, bytes_on(4));
}

TEST(Remedies, AreTakenToManyHostsWhereOneIsNotEnough) {
  RunPlan plan = planned("llama-8b", 8);
  plan.options.model.context = 2048;
  const std::vector<Remedy> found = remedies(plan, 40 * kGigabyte);
  EXPECT_LE(found.back().bytes, 40 * kGigabyte);
  // Neither a dtype nor the context has to change.
  EXPECT_THAT(found.back().change,
              testing::MatchesRegex("[0-9]+ hosts of 1 rank each and --batch 1 --activation-checkpoint all"));
}

TEST(Remedies, AreTakenTogetherWhereNoneIsEnough) {
  RunPlan plan = planned("llama-1b", 8);
  plan.options.model.context = 1024;
  plan.options.activation_checkpoint = "all";
  const RunPlan smaller = [&] {
    RunPlan changed = plan;
    changed.options.batch = 1;
    changed.options.micro_batches = 64;
    changed.options.ranks = 1;
    return changed;
  }();
  const std::vector<Remedy> found = remedies(plan, 1.01 * host_bytes(smaller));
  EXPECT_EQ(found.back().change, "--ranks 1 --batch 1 --micro-batches 64") << testing::PrintToString(changes(found));
  EXPECT_EQ(found.back().bytes, host_bytes(smaller));
  for (size_t i = 0; i + 1 < found.size(); ++i) EXPECT_GT(found[i].bytes, found.back().bytes);
}

TEST(Remedies, AreNoneWhereNothingSavesAnything) {
  RunPlan plan;
  plan.options.model.context = 16;
  plan.options.batch = 1;
  plan.options.param_dtype = "bf16";
  plan.options.offload = "all";
  plan.options.optimizer_state = "8bit";
  plan.host.process_bytes = kGigabyte;
  EXPECT_THAT(remedies(plan, 1), IsEmpty());
}

TEST(Remedies, LeaveTheContextOfWeightsFromElsewhere) {
  RunPlan plan = planned("gpt2", 1);
  EXPECT_THAT(changes(remedies(plan, 1)), Contains("--context 512"));
  plan.options.model_options.init_from = "gpt2";
  EXPECT_THAT(changes(remedies(plan, 1)), Each(Not(testing::HasSubstr("--context"))));
}

RunPlan planned_mesh_of(int64_t data, int64_t pipeline, int64_t tensor) {
  RunPlan plan = planned("llama-1b", data * pipeline * tensor);
  plan.options.pipeline_parallel = pipeline;
  plan.options.tensor_parallel = tensor;
  plan.options.tensor_parts = tensor;
  plan.options.micro_batches = 4;
  plan.options.model.context = 2048;
  return plan;
}

// Other numbers of ranks could not hold all stages and parts.
TEST(Remedies, KeepTheRanksOfAMesh) {
  const RunPlan plan = planned_mesh_of(2, 2, 2);
  const std::vector<std::string> found = changes(remedies(plan, kGigabyte));
  EXPECT_THAT(found, Not(IsEmpty()));
  EXPECT_THAT(found, Each(Not(testing::HasSubstr("--ranks"))));
  EXPECT_THAT(found, Contains("--sequence-parallel"));
}

TEST(Remedies, HoldFewerMicroBatches) {
  RunPlan plan = planned_mesh_of(1, 2, 1);
  EXPECT_THAT(changes(remedies(plan, kGigabyte)), Not(Contains("--pipeline-schedule one-forward-one-backward")));
  plan.options.pipeline_schedule = "all-forward-all-backward";
  EXPECT_THAT(changes(remedies(plan, kGigabyte)), Contains("--pipeline-schedule one-forward-one-backward"));
}

// Sequences of a context that the parts do not divide cannot be divided.
TEST(Remedies, DoNotContradictTheMesh) {
  RunPlan plan = planned_mesh_of(1, 1, 4);
  plan.options.model.context = 2050;
  EXPECT_THAT(changes(remedies(plan, kGigabyte)), Not(Contains("--sequence-parallel")));
}

}  // namespace
}  // namespace trainer
