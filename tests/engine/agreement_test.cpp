// Ranks that are told different things when they shard a model: an error on each of them, at once.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::TestModel;

TestModel make_model() { return testing_models::model_kinds()[2].make(); }  // has buffers

// Expects an error of `shard` on each of two ranks, of which the second has other options.
void expect_refused(World& world, const Options& others, const std::vector<std::string>& says) {
  const TestModel model = make_model();
  const std::string message =
      message_of<Error>([&] { shard(*model.module, world, world.rank() == 1 ? others : Options{}); });
  for (const std::string& text : says) EXPECT_THAT(message, HasSubstr(text));
  EXPECT_THAT(message, AllOf(HasSubstr("rank 1"), HasSubstr("on every rank")));
}

TEST(Agreement, OnOptionsIsChecked) {
  run_ranks(2, [](World& world) {
    const auto refused = [&](const Options& others, const std::string& option) {
      expect_refused(world, others, {"the option " + option + " on rank 0"});
    };
    refused({.strategy = Strategy::ShardGradOp}, "strategy is ShardGradOp on rank 1 and FullShard");
    refused({.strategy = Strategy::NoShard}, "strategy is NoShard on rank 1 and FullShard");
    refused({.shard_group_size = 1}, "shard_group_size is 1 on rank 1 and 2");
    refused({.mixed_precision = {.reduce_dtype = torch::kBFloat16}},
            "mixed_precision.reduce_dtype is BFloat16 on rank 1 and Float");
    refused({.buffers = 3}, "buffers is 3 on rank 1 and 2");
    refused({.prefetch = 0}, "prefetch is 0 on rank 1 and 1");
    refused({.sync_module_states = false}, "sync_module_states is false on rank 1 and true");
    refused({.full_on_each_host = true}, "full_on_each_host is true on rank 1 and false");
  });
}

TEST(Agreement, OnWhatOptionsMakeOfTheModelIsChecked) {
  run_ranks(2, [](World& world) {
    const std::string build = "Build the same model on every rank";
    // Batch norms are kept in fp32, apart.
    expect_refused(world, {.mixed_precision = {.param_dtype = torch::kBFloat16}}, {"7 units", build});
    expect_refused(world, {.mixed_precision = {.buffer_dtype = torch::kBFloat16}}, {"unit=", build});
    expect_refused(world, {.ignored = {"head.bias"}}, {"unit=", build});
  });
}

TEST(Agreement, OnUnitsIsChecked) {
  run_ranks(2, [](World& world) {
    const TestModel model = make_model();
    const Options whole{.units = one_unit()};
    EXPECT_THAT(message_of<Error>([&] { shard(*model.module, world, world.rank() == 1 ? whole : Options{}); }),
                AllOf(HasSubstr("rank 1 has a model of 1 units, rank 0 one of 4"), HasSubstr("on every rank")));
  });
}

}  // namespace
}  // namespace fsdp
