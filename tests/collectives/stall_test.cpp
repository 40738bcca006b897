// A reduction that a peer does not begin before this rank goes on, among real ranks.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "collectives/group.h"
#include "support/pace.h"
#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp::collectives {
namespace {

using testing::Job;
using testing::run_ranks;

// One reduction of a unit whose gradients are all `rank + 1`.
class Reduction {
 public:
  explicit Reduction(World& world)
      : rank_(world.rank()),
        unit_(world.state()->group().open_unit({0, "blocks.3", layout::UnitLayout({64}, world.size(), world.size())})),
        layout_(layout::UnitLayout({64}, world.size(), world.size()), {1}),
        values_(world.state()->group().allocate(layout_.full_numel() * 4).view(torch::kFloat32)),
        staging_(torch::zeros({unit_->staging_numel(layout_)})),
        sum_{torch::zeros({layout_.shard_of(world.rank()).numel()}), {0}} {
    values_.fill_(rank_ + 1);
  }

  void begin() { unit_->begin_reduce({&layout_, values_, {1}, staging_}, sum_); }
  bool wait_begun() { return unit_->wait_begun() == Begun::Yes; }
  void end(float expected) {
    unit_->wait_reduce();
    const bool same = rank_ > 0 || sum_.values.equal(torch::full({64}, expected));  // the others own padding
    EXPECT_TRUE(same) << sum_.values;
  }

 private:
  int rank_;
  std::unique_ptr<UnitCollectives> unit_;
  layout::GradientLayout layout_;
  torch::Tensor values_, staging_;
  GradientSum sum_;
};

class Stall : public ::testing::TestWithParam<std::string> {
 protected:
  // Two hosts of two where there are hosts.
  void run(int ranks, const std::function<void(World&)>& body) {
    if (GetParam() == "hosts") {
      testing::run_on_hosts({}, body);
    } else {
      run_ranks(Job{ranks, GetParam()}, body);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Stall, ::testing::Values("gloo", "shm", "hosts"),
                         [](const auto& info) { return info.param; });

// Of one more than the rank's number over the ranks, so many times.
float sum_over(const World& world, int rounds) {
  return static_cast<float>(world.size() * (world.size() + 1) / 2 * rounds);
}

TEST_P(Stall, APeerThatWaitsForThisRankIsNotWaitedFor) {
  run(2, [](World& world) {
    Reduction reduction(world);
    for (int round = 1; round <= 2; ++round) {                     // whoever gave up can wait again
      if (world.rank() == 1) world.all_gather(torch::zeros({1}));  // as at the end of a backward
      reduction.begin();
      if (world.rank() != 1) {
        EXPECT_FALSE(reduction.wait_begun());
        world.all_gather(torch::zeros({1}));
      }
      reduction.end(sum_over(world, round));
    }
  });
}

// All but one rank wait for that one, which will come.
TEST_P(Stall, ASlowPeerIsWaitedFor) {
  run(3, [](World& world) {
    Reduction reduction(world);
    for (int round = 1; round <= 2; ++round) {
      if (world.rank() == world.size() - 1) testing::sleep_paced(std::chrono::milliseconds(3500));
      reduction.begin();
      EXPECT_TRUE(reduction.wait_begun());
      reduction.end(sum_over(world, round));
    }
  });
}

TEST_P(Stall, PeersThatHaveBegunAreNotWaitedForTwice) {
  run(3, [](World& world) {
    Reduction reduction(world);
    for (int round = 1; round <= 3; ++round) {
      reduction.begin();
      EXPECT_TRUE(reduction.wait_begun());
      EXPECT_TRUE(reduction.wait_begun());
      reduction.end(sum_over(world, round));
    }
  });
}

}  // namespace
}  // namespace fsdp::collectives
