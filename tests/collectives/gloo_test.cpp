// The gloo backend among real ranks.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using testing::run_ranks;

TEST(Gloo, SumsInRankOrder) {
  for (int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [](World& world) {
      for (int64_t numel : {1, 1000, 300000}) {
        torch::manual_seed(7);
        torch::Tensor all = torch::randn({world.size(), numel});
        torch::Tensor expected = all[0].clone();
        for (int rank = 1; rank < world.size(); ++rank) expected += all[rank];
        torch::Tensor mine = all[world.rank()].clone();
        world.all_reduce_(mine);
        EXPECT_TRUE(mine.equal(expected)) << numel;
      }
    });
}

}  // namespace
}  // namespace fsdp
