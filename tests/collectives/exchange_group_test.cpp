// The collectives over messages, with threads as ranks.
#include "collectives/exchange_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "collectives/backends.h"
#include "collectives/group_checks.h"
#include "collectives/local_transport.h"

namespace fsdp::collectives {
namespace {

using ::testing::HasSubstr;

void for_each_rank(int ranks, const std::function<void(Group&)>& check) {
  LocalNetwork network(ranks);
  run_threads(ranks, [&](int rank) {
    ExchangeGroup group(network.transport(rank));
    check(group);
  });
}

class Exchange : public ::testing::TestWithParam<int> {};

TEST_P(Exchange, Gathers) {
  for_each_rank(GetParam(), [](Group& group) { check_gather(group); });
}
TEST_P(Exchange, WritesInAnyOrder) { for_each_rank(GetParam(), check_writes_in_any_order); }
TEST_P(Exchange, Reduces) {
  for_each_rank(GetParam(), [](Group& group) { check_reduce(group); });
}
TEST_P(Exchange, MovesWholeTensors) { for_each_rank(GetParam(), check_whole_tensors); }

INSTANTIATE_TEST_SUITE_P(Ranks, Exchange, ::testing::Values(2, 3, 4, 5));

TEST(SingleGroup, DoesTheSame) {
  auto group = make_single_group();
  check_gather(*group);
  check_writes_in_any_order(*group);
  check_reduce(*group);
  check_whole_tensors(*group);
}

TEST(SingleGroup, TakesTheFirstGradientsAsTheSum) {
  auto group = make_single_group();
  layout::UnitLayout layout({64, 64}, 1, 1);
  auto unit = group->open_unit({0, "unit", layout});
  layout::GradientLayout gradients(layout, {1, 1});
  GradientSum sum{torch::ones({128}), {0, 0}};
  unit->begin_reduce({&gradients, sum.values, {1, 0}, {}}, sum);
  unit->wait_reduce();
  EXPECT_EQ(sum.held, (std::vector<uint8_t>{1, 0}));
  EXPECT_TRUE(sum.values.equal(torch::ones({128})));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ExchangeGroup, AFailurePoisonsTheGroupAndItsUnits) {
  LocalNetwork network(2);
  ExchangeGroup group(network.transport(0));
  auto unit = group.open_unit({0, "blocks.4", layout::UnitLayout({100}, 2, 2)});
  network.fail(1);
  torch::Tensor buffer = torch::zeros({128});
  unit->begin_gather(buffer, Order::Common);
  std::string first = message_of([&] { unit->wait_gather(); });
  EXPECT_THAT(first, HasSubstr("unit=blocks.4] gather: rank 1 is gone"));
  EXPECT_EQ(message_of([&] { group.barrier(); }), first);
  EXPECT_EQ(message_of([&] { unit->begin_write(Readers::Wait); }), first);
}

TEST(ExchangeGroup, AUnitOutlivesItsGroup) {
  LocalNetwork network(2);
  run_threads(2, [&](int rank) {
    auto group = std::make_unique<ExchangeGroup>(network.transport(rank));
    auto unit = group->open_unit({0, "unit", layout::UnitLayout({100}, 2, 2)});
    group.reset();
    torch::Tensor buffer = torch::ones({128});
    unit->begin_gather(buffer, Order::Common);
    unit->wait_gather();
    EXPECT_TRUE(buffer.equal(torch::zeros({128})));
  });
}

}  // namespace
}  // namespace fsdp::collectives
