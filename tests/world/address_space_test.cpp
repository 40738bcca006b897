// Ranks that may not have as much address space, or as long files, as they like.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

// From now on, for this process and the ranks that it starts.
void limit(__rlimit_resource resource, rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ASSERT_EQ(setrlimit(resource, &limit), 0);
}

void train(const testing_models::TestModel& model, ShardedModel& sharded) {
  AdamW optimizer(sharded);
  model.loss(0).backward();
  optimizer.step();
  optimizer.zero_grad();
}

// Of this process: a sanitizer reserves terabytes.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void run_limited(__rlimit_resource resource, rlim_t bytes, const std::function<void(World&)>& body) {
  const testing::RunResult result = testing::run_process([&] {
    limit(resource, bytes + (resource == RLIMIT_AS ? address_space() : 0));
    LaunchOptions options = testing::test_options();
    options.ranks = 4;
    return launch(options, body);
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(AddressSpace, OfManyModelsAndSplitsIsWhatTheyNeed) {
  run_limited(RLIMIT_AS, rlim_t{64} << 30, [](World& world) {
    std::vector<World> splits;
    for (int i = 0; i < 50; ++i) splits.push_back(world.split(world.rank() % (1 + i % 2)));
    std::vector<testing_models::TestModel> models;
    std::vector<ShardedModel> sharded;
    for (int i = 0; i < 20; ++i) {
      models.push_back(testing_models::make_gpt(/*blocks=*/1, /*width=*/16));
      sharded.push_back(shard(*models.back().module, world));
    }
    for (int i = 0; i < 20; ++i) train(models[i], sharded[i]);
    for (World& split : splits) split.barrier();
  });
}

TEST(AddressSpace, OfFilesIsWhatTheModelNeeds) {
  run_limited(RLIMIT_FSIZE, rlim_t{8} << 20, [](World& world) {
    const auto model = testing_models::make_gpt(/*blocks=*/1, /*width=*/16);
    ShardedModel sharded = shard(*model.module, world);
    train(model, sharded);
  });
}

}  // namespace
}  // namespace fsdp
