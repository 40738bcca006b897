// World among real ranks.
#include "fsdp/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/message_of.h"
#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_end;

TEST(World, TellsARankWhoItIs) {
  for (int ranks : {1, 3})
    run_ranks(ranks, [=](World& world) {
      EXPECT_EQ(world.size(), ranks);
      EXPECT_EQ(world.local_size(), ranks);
      EXPECT_EQ(world.rank(), world.local_rank());
      EXPECT_EQ(world.device(), torch::Device(torch::kCPU));
      EXPECT_EQ(at::get_num_threads(), 1);
      std::vector<torch::Tensor> all = world.all_gather(torch::tensor(world.rank()));
      for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(all[rank].item<int64_t>(), rank);
    });
}

TEST(World, TakesTensorsThatAreNotContiguous) {
  run_ranks(2, [](World& world) {
    torch::Tensor base = torch::arange(12, torch::kFloat32).view({3, 4}) * (world.rank() + 1);
    torch::Tensor column = base.t();
    world.all_reduce_(column);
    EXPECT_TRUE(base.equal(torch::arange(12, torch::kFloat32).view({3, 4}) * 3));
    torch::Tensor every_other = base.slice(1, 0, 4, 2);
    every_other.fill_(world.rank());
    world.broadcast_(every_other, 1);
    EXPECT_TRUE(every_other.equal(torch::ones({3, 2})));
    EXPECT_TRUE(world.all_gather(base.t())[1].equal(base.t()));
    torch::Tensor leaf = torch::ones({2}).requires_grad_();
    world.all_reduce_(leaf);
    EXPECT_EQ(leaf[0].item<float>(), 2);
  });
}

TEST(World, NamesTheRankWhoseCallDiffers) {
  run_ranks(3, [](World& world) {
    torch::Tensor tensor = world.rank() == 2 ? torch::zeros({2, 3}, torch::kFloat64) : torch::zeros({4});
    std::string message = message_of([&] { world.all_gather(tensor); });
    EXPECT_THAT(message,
                HasSubstr("rank 2 found all_gather of a Double tensor of shape [2, 3], expected all_gather of a "
                          "Float tensor of shape [4] as on rank 0"));
    message = message_of([&] { world.rank() == 1 ? world.all_reduce_(tensor) : world.broadcast_(tensor, 2); });
    EXPECT_THAT(message, HasSubstr("rank 1 found all_reduce_ of"));
    EXPECT_THAT(message_of([&] { world.broadcast_(tensor, 3); }), HasSubstr("expected 0 to 2"));
    torch::Tensor undefined;
    EXPECT_THAT(message_of([&] { world.all_reduce_(undefined); }), HasSubstr("undefined"));
    world.barrier();
  });
}

// Of tensors that travel with the facts of the call, beside them, and after them.
TEST(World, GoesOnAfterCallsThatDiffer) {
  for (const char* backend : {"shm", "gloo"}) {
    LaunchOptions options = testing::patient_options();
    options.backend = backend;
    run_ranks(
        3,
        [](World& world) {
          for (const int64_t numel : {1, 93, 500, 16384, 300000}) {
            torch::Tensor longer = torch::ones({numel + world.rank() / 2}), same = torch::ones({numel});
            EXPECT_THAT(message_of([&] { world.all_reduce_(longer); }), HasSubstr("rank 2 found all_reduce_ of"));
            EXPECT_THAT(message_of([&] { world.broadcast_(longer, 1); }), HasSubstr("rank 2 found broadcast_ from"));
            EXPECT_THAT(message_of([&] { world.all_gather(longer); }), HasSubstr("rank 2 found all_gather of"));
            EXPECT_THAT(message_of([&] { world.broadcast_(same, world.rank() / 2); }), HasSubstr("from rank 1 of"));
            EXPECT_TRUE(longer.eq(1).all().item<bool>());
            world.all_reduce_(same);
            EXPECT_TRUE(same.eq(3).all().item<bool>());
          }
        },
        options);
  }
}

TEST(World, SplitsByColor) {
  run_ranks(4, [](World& world) {
    World half = world.split(world.rank() % 2);
    EXPECT_EQ(half.size(), 2);
    EXPECT_EQ(half.rank(), world.rank() / 2);
    EXPECT_EQ(half.local_size(), 2);
    torch::Tensor ranks = torch::tensor({world.rank()});
    half.all_reduce_(ranks);
    EXPECT_EQ(ranks.item<int64_t>(), world.rank() % 2 ? 4 : 2);
    World alone = half.split(world.rank());
    EXPECT_EQ(alone.size(), 1);
    alone.barrier();
    World again = world.split(7);
    EXPECT_EQ(again.rank(), world.rank());
    again.barrier();
  });
}

TEST(World, ASmallerGroupCallsItsRanksByTheirNumberInTheWorld) {
  auto result = run_ranks_to_end(4,
                                 [](World& world) {
                                   World half = world.split(world.rank() % 2);
                                   half.barrier();
                                   if (world.rank() == 3) raise(SIGKILL);
                                   if (world.rank() == 1) half.barrier();
                                 },
                                 {.timeout = std::chrono::seconds(20)});
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 1/4] barrier: rank 3 is gone (it was killed"));
}

}  // namespace
}  // namespace fsdp
