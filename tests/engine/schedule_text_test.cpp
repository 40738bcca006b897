// A model's report of its schedule, times left out.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <regex>

#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex(" *\\b[0-9]+\\.[0-9]{2} ms"), " T");
}

// A GPT of two blocks whose head is tied to its embedding, after a few steps.
std::string schedule_of(World& world, Options options, int steps, int micro_batches = 1) {
  auto model = testing_models::make_gpt(2);
  auto sharded = shard(*model.module, world, std::move(options));
  SGD optimizer(sharded, {.lr = 0.1});
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < micro_batches; ++i) model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return without_times(sharded.schedule());
}

TEST(ScheduleText, OfOneRank) {
  run_ranks(1, [](World& world) {
    EXPECT_EQ(schedule_of(world, {}, 2), R"(FullShard on 1 rank: 3 units

unit      parameters  a reduction  a step
root           2,400          0 B     1 x
blocks.0      12,704          0 B     1 x
blocks.1      12,704          0 B     1 x

27,808 parameters; this rank gets, in a step: 0 B in 3 reductions

phase     unit                    reduces         has reduced
forward   root to blocks.1, root
backward  root
backward  blocks.1                blocks.1
backward  blocks.0                root, blocks.0
end                                               root to blocks.1
)");
  });
}

TEST(ScheduleText, OverGlooHasBytesAndBuffers) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const std::string text = schedule_of(world, {}, 2);
    if (world.rank() != 0) return;  // the last rank's parts are smaller
    EXPECT_EQ(text, R"(FullShard on 2 ranks: 3 units, 2 buffers for full units, 3 buffers for gradients

unit      parameters  a gather  a step  a reduction  a step  gather waits  reduce waits
root           2,400   5.12 kB     2 x      5.12 kB     1 x T T
blocks.0      12,704   25.9 kB     2 x      25.9 kB     1 x T T
blocks.1      12,704   25.9 kB     1 x      25.9 kB     1 x T T

27,808 parameters; this rank gets, in a step: 87.8 kB in 5 gathers, 56.8 kB in 3 reductions
full at once: at most 2 units, 103 kB
this rank waits, in a step, the mean of 2: T for gathers, T for reductions,
 T for agreement of all ranks, T for readers of the shards

phase     unit      gathers             releases            reduces             has reduced
forward   root
forward   blocks.0  blocks.1@0          root
forward   blocks.1  root@1              blocks.0
forward   root
backward  root
backward  blocks.1  blocks.0@1          root                blocks.1@1
backward  blocks.0                                          blocks.0@2, root@0
end                                     blocks.0, blocks.1                      root to blocks.1
step                root@0, blocks.0@1
)");
  });
}

TEST(ScheduleText, InSharedMemoryGathersCopyNothing) {
  run_ranks(Job{2, "shm"}, [](World& world) {
    const std::string text = schedule_of(world, {}, 2);
    if (world.rank() != 0) return;  // the last rank's parts are smaller
    EXPECT_EQ(text, R"(FullShard on 2 ranks: 3 units, gathers copy nothing, 3 buffers for gradients

unit      parameters  a gather  a step  a reduction  a step  gather waits  reduce waits
root           2,400       0 B     2 x      5.12 kB     1 x T T
blocks.0      12,704       0 B     2 x      25.9 kB     1 x T T
blocks.1      12,704       0 B     1 x      25.9 kB     1 x T T

27,808 parameters; this rank gets, in a step: 0 B in 5 gathers, 56.8 kB in 3 reductions
full at once: at most 2 units, 103 kB
this rank waits, in a step, the mean of 2: T for gathers, T for reductions,
 T for agreement of all ranks, T for readers of the shards

phase     unit      gathers         releases            reduces             has reduced
forward   root
forward   blocks.0  blocks.1        root
forward   blocks.1  root            blocks.0
forward   root
backward  root
backward  blocks.1  blocks.0        root                blocks.1@1
backward  blocks.0                                      blocks.0@2, root@0
end                                 blocks.0, blocks.1                      root to blocks.1
step                root, blocks.0
)");
  });
}

TEST(ScheduleText, OfAFirstStepIsOnDemand) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    EXPECT_THAT(schedule_of(world, {}, 0), EndsWith("\nno step is recorded yet\n"));
    EXPECT_THAT(schedule_of(world, {}, 1), EndsWith("* on demand: there was no plan that it followed\n"));
  });
}

TEST(ScheduleText, NamesTheStrategyAndItsGroups) {
  run_ranks(Job{4, "gloo"}, [](World& world) {
    const Options hybrid{.strategy = Strategy::HybridShard, .shard_group_size = 2};
    EXPECT_THAT(schedule_of(world, hybrid, 1), StartsWith("HybridShard on 4 ranks in groups of 2: 3 units, "));
    const std::string text = schedule_of(world, {.strategy = Strategy::NoShard}, 2, 3);
    EXPECT_THAT(text, StartsWith("NoShard on 4 ranks: 3 units, gathers copy nothing, 3 buffers for gradients\n"));
    EXPECT_THAT(text, HasSubstr("\nmicro-batches 1 to 3 of 3, each\n"));
    EXPECT_THAT(text, HasSubstr("this rank gets, in a step: "));
  });
}

TEST(ScheduleText, CountsWhatWasCounted) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    auto model = testing_models::make_gpt(3);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    CommunicationReport before;
    for (int step = 0; step < 3; ++step) {
      before = sharded.communication();
      for (int i = 0; i < 2; ++i) model.loss(world.rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const CommunicationReport after = sharded.communication();
    const std::string text = sharded.schedule();
    EXPECT_THAT(text, HasSubstr(fmt::format(" in {} gathers, ", after.gathers - before.gathers)));
    EXPECT_THAT(text, HasSubstr(fmt::format(" in {} reductions\n", after.reductions - before.reductions)));
  });
}

TEST(ScheduleText, HasThePlanOfEvaluations) {
  run_ranks(2, [](World& world) {
    auto model = testing_models::make_gpt(4);
    auto sharded = shard(*model.module, world);
    torch::NoGradGuard no_grad;
    for (int i = 0; i < 3; ++i) model.loss(world.rank());
    EXPECT_THAT(sharded.schedule(), EndsWith("\nwithout gradients: root to blocks.3\n"));
  });
}

}  // namespace
}  // namespace fsdp
