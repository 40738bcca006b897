// Every call of a handle that was moved from is an Error that says so; destroying it, or giving it another's value, is
// none.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::HasSubstr;
using testing_models::make_gpt;

using Calls = std::map<std::string, std::function<void()>>;

void expect_refused(const std::string& type, const Calls& calls) {
  for (const auto& [name, call] : calls) {
    EXPECT_THAT(message_of<Error>(call), HasSubstr("this " + type + " was moved from")) << type << "::" << name;
  }
}

// Its calls, but for constructors.
Calls calls_of(ShardedModel& model) {
  return {{"parameters", [&] { model.parameters(); }},
          {"units", [&] { model.units(); }},
          {"shards", [&] { model.shards(); }},
          {"clip_grad_norm_", [&] { model.clip_grad_norm_(1); }},
          {"clip_grad_norm_async_", [&] { model.clip_grad_norm_async_(1); }},
          {"set_gradient_divisor", [&] { model.set_gradient_divisor(1); }},
          {"no_sync", [&] { model.no_sync(); }},
          {"any_rank_has_batch", [&] { model.any_rank_has_batch(true); }},
          {"backward_without_batch", [&] { model.backward_without_batch(); }},
          {"full_state", [&] { model.full_state(); }},
          {"buffers", [&] { model.buffers(); }},
          {"broadcast_buffers", [&] { model.broadcast_buffers(); }},
          {"full_parameters", [&] { model.full_parameters(); }},
          {"zero_grad", [&] { model.zero_grad(); }},
          {"initialise", [&] { model.initialise(); }},
          {"memory", [&] { model.memory(); }},
          {"reset_peak_memory", [&] { model.reset_peak_memory(); }},
          {"activation_decision", [&] { model.activation_decision(); }},
          {"gradients_not_finite", [&] { model.gradients_not_finite(); }},
          {"communication", [&] { model.communication(); }},
          {"waits_for", [&] { model.waits_for(); }},
          {"schedule", [&] { model.schedule(); }},
          {"trace", [&] { model.trace(); }},
          {"model", [&] { model.model(); }},
          {"shared_model", [&] { model.shared_model(); }}};
}

TEST(MovedFrom, AShardedModel) {
  run_ranks(1, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    ShardedModel moved = std::move(sharded);
    expect_refused("ShardedModel", calls_of(sharded));
    const ScratchDirectory scratch;
    expect_refused("ShardedModel", {{"AdamW", [&] { AdamW optimizer(sharded); }},
                                    {"Muon", [&] { Muon optimizer(sharded); }},
                                    {"ShardedModels", [&] { ShardedModels models({sharded}); }},
                                    {"GradScaler", [&] { GradScaler().unscale_(sharded); }},
                                    {"save", [&] { save_checkpoint(scratch.path() / "a", {.model = &sharded}); }},
                                    {"save_async", [&] { save_checkpoint_async(scratch.path() / "a", {&sharded}); }},
                                    {"load", [&] { load_checkpoint(scratch.path() / "a", {.model = &sharded}); }},
                                    {"save_pretrained", [&] { save_pretrained(scratch.path() / "a", sharded); }},
                                    {"load_pretrained", [&] { load_pretrained(scratch.path() / "a", sharded); }}});
    model.loss(0).backward();  // the one that it was moved to works
    moved.zero_grad();
    sharded = std::move(moved);
    EXPECT_EQ(message_of([&] { sharded.memory(); }), "no error");
    expect_refused("ShardedModel", calls_of(moved));
    EXPECT_EQ(message_of([&] { moved = std::move(sharded); }), "no error");
    const auto& self = moved;
    moved = std::move(const_cast<ShardedModel&>(self));  // to itself: nothing changes
    EXPECT_EQ(message_of([&] { moved.memory(); }), "no error");
  });
}

TEST(MovedFrom, APipeline) {
  run_ranks(1, [](World& world) {
    Pipeline pipeline({pipeline_block<torch::nn::LinearImpl>("a", 2, 2)}, world);
    Pipeline moved = std::move(pipeline);
    const auto loss = [](const torch::Tensor& output, const torch::Tensor&) { return output.sum(); };
    const Tensors batches{torch::ones({1, 2})};
    expect_refused("Pipeline", {{"stage", [&] { pipeline.stage(); }},
                                {"step", [&] { pipeline.step(batches, batches, loss); }},
                                {"forward", [&] { pipeline.forward(batches); }},
                                {"clip_grad_norm_", [&] { pipeline.clip_grad_norm_(1); }},
                                {"report", [&] { pipeline.report(); }},
                                {"trace", [&] { pipeline.trace(); }}});
    EXPECT_EQ(message_of([&] { moved.step(batches, batches, loss); }), "no error");
  });
}

template <typename Kind>
void expect_refused_optimizer(World& world) {
  auto model = make_gpt();
  auto sharded = shard(*model.module, world);
  Kind optimizer(sharded);
  Kind moved = std::move(optimizer);
  Calls calls{{"step", [&] { optimizer.step(); }},
              {"zero_grad", [&] { optimizer.zero_grad(); }},
              {"state", [&] { optimizer.state(); }},
              {"model", [&] { optimizer.model(); }},
              {"own_state", [&] { optimizer.own_state(); }},
              {"step_in_backward", [&] { (void)optimizer.step_in_backward(); }},
              {"set_lr", [&] { optimizer.set_lr(1); }},
              {"GradScaler::step", [&] { GradScaler().step(optimizer); }},
              {"disabled", [&] { GradScaler({.enabled = false}).step(optimizer); }}};
  if constexpr (std::is_same_v<Kind, Muon>) calls["set_adamw_lr"] = [&] { optimizer.set_adamw_lr(1); };
  expect_refused("optimizer", calls);
  model.loss(0).backward();
  moved.step();
  moved.zero_grad();
  optimizer = std::move(moved);
  model.loss(1).backward();
  EXPECT_EQ(message_of([&] { optimizer.step(); }), "no error");
  expect_refused("optimizer", {{"step", [&] { moved.step(); }}});
}

TEST(MovedFrom, AnOptimizer) {
  run_ranks(1, [](World& world) {
    expect_refused_optimizer<AdamW>(world);
    expect_refused_optimizer<Adam>(world);
    expect_refused_optimizer<SGD>(world);
    expect_refused_optimizer<Muon>(world);
  });
}

TEST(MovedFrom, ACheckpointsOptimizer) {
  run_ranks(1, [](World& world) {
    const ScratchDirectory scratch;
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded), moved = std::move(optimizer);
    const Checkpoint state{.model = &sharded, .optimizer = &optimizer};
    save_checkpoint(scratch.path() / "a", {.model = &sharded, .optimizer = &moved});
    expect_refused("optimizer", {{"save", [&] { save_checkpoint(scratch.path() / "b", state); }},
                                 {"load", [&] { load_checkpoint(scratch.path() / "a", state); }}});
  });
}

TEST(MovedFrom, Scopes) {
  run_ranks(1, [](World& world) {
    const ScratchDirectory scratch;
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    {
      FullParameters scope = sharded.full_parameters(), moved = std::move(scope);
      expect_refused("FullParameters", {{"close", [&] { scope.close(); }}});
      moved.close();
      moved.close();  // does nothing
    }
    {
      Trace trace = sharded.trace(), moved = std::move(trace);
      expect_refused("Trace", {{"write", [&] { trace.write(scratch.path() / "a.json"); }},
                               {"add", [&] { trace.add("step", {}, {}); }},
                               {"events", [&] { trace.events(); }}});
      moved.write(scratch.path() / "a.json");
    }
    AdamW optimizer(sharded);
    {
      NoSync scope = sharded.no_sync(), moved = std::move(scope);  // which have no calls
      model.loss(0).backward();
    }
    {
      StepInBackward scope = optimizer.step_in_backward(), moved = std::move(scope);
      model.loss(0).backward();
    }
    EXPECT_EQ(message_of([&] { optimizer.step(); }), "no error");
  });
}

TEST(MovedFrom, HandlesOfSeveralModelsOfASaveAndOfAScale) {
  run_ranks(1, [](World& world) {
    const ScratchDirectory scratch;
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    ShardedModels models({sharded}), other_models = std::move(models);
    expect_refused("ShardedModels", {{"set_gradient_divisor", [&] { models.set_gradient_divisor(1); }},
                                     {"clip_grad_norm_", [&] { models.clip_grad_norm_(1); }},
                                     {"clip_grad_norm_async_", [&] { models.clip_grad_norm_async_(1); }},
                                     {"zero_grad", [&] { models.zero_grad(); }},
                                     {"memory", [&] { models.memory(); }}});
    other_models.zero_grad();

    PendingCheckpoint save = save_checkpoint_async(scratch.path() / "a", {.model = &sharded});
    PendingCheckpoint other_save = std::move(save);
    const Calls calls{{"wait", [&] { save.wait(); }},
                      {"done", [&] { (void)save.done(); }},
                      {"seconds_paused", [&] { (void)save.seconds_paused(); }},
                      {"seconds", [&] { (void)save.seconds(); }}};
    expect_refused("PendingCheckpoint", calls);
    PendingCheckpoint copy = save;
    EXPECT_THAT(message_of<Error>([&] { copy.wait(); }), HasSubstr("moved from"));
    other_save.wait();
    EXPECT_TRUE(PendingCheckpoint().done());

    GradScaler scaler, other_scaler = std::move(scaler);
    expect_refused("GradScaler", {{"scale", [&] { (void)scaler.scale(torch::ones({})); }},
                                  {"unscale_", [&] { scaler.unscale_(sharded); }},
                                  {"update", [&] { scaler.update(); }},
                                  {"scale_value", [&] { (void)scaler.scale_value(); }},
                                  {"state", [&] { (void)scaler.state(); }},
                                  {"load_state", [&] { scaler.load_state({}); }}});
    EXPECT_EQ(other_scaler.scale_value(), 65536);
  });
}

TEST(MovedFrom, AMesh) {
  run_ranks(1, [](World& world) {
    Mesh mesh(world, {{"data", 1}});
    const Mesh other = std::move(mesh);
    expect_refused("Mesh", {{"axes", [&] { mesh.axes(); }},
                            {"size", [&] { mesh.size("data"); }},
                            {"coordinate", [&] { mesh.coordinate("data"); }},
                            {"operator[]", [&] { mesh["data"]; }},
                            {"over", [&] { mesh.over({"data"}); }},
                            {"world", [&] { mesh.world(); }},
                            {"to_string", [&] { mesh.to_string(); }}});
    EXPECT_EQ(other["data"].size(), 1);
  });
}

TEST(MovedFrom, AWorldAndAPolicy) {
  run_ranks(1, [](World& world) {
    World one = world, other = std::move(one);
    torch::Tensor tensor = torch::ones({2});
    torch::nn::Linear module(2, 2);
    expect_refused("World", {{"rank", [&] { one.rank(); }},
                             {"size", [&] { one.size(); }},
                             {"local_rank", [&] { one.local_rank(); }},
                             {"local_size", [&] { one.local_size(); }},
                             {"restarts", [&] { one.restarts(); }},
                             {"device", [&] { one.device(); }},
                             {"barrier", [&] { one.barrier(); }},
                             {"all_reduce_", [&] { one.all_reduce_(tensor); }},
                             {"broadcast_", [&] { one.broadcast_(tensor); }},
                             {"all_gather", [&] { one.all_gather(tensor); }},
                             {"split", [&] { one.split(0); }},
                             {"state", [&] { one.state(); }},
                             {"shard", [&] { shard(*module, one); }}});
    EXPECT_EQ(other.size(), 1);

    Options options, taken = std::move(options);
    expect_refused("UnitPolicy", {{"divide", [&] { (void)options.units.divide(*module); }},
                                  {"choose", [&] { (void)options.units.choose(*module); }},
                                  {"preview", [&] { preview_units(*module, options); }},
                                  {"shard", [&] { shard(*module, world, options); }}});
    EXPECT_EQ(preview_units(*module, taken).size(), 1u);
  });
}

}  // namespace
}  // namespace fsdp
