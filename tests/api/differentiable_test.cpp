// Gradients through collectives, against those of one process that computes every rank's part.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "fsdp/collectives.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using differentiable::ResultUse;
using testing::run_ranks;

constexpr int kRanks = 3;

torch::Tensor argument_of(int rank) {
  const auto seed = static_cast<uint64_t>(rank);
  return torch::randn({kRanks * 2, kRanks}, at::detail::createCPUGenerator(seed), torch::kFloat64).requires_grad_();
}

// A loss that is another one on each rank, and not linear.
torch::Tensor loss_of(int rank, const torch::Tensor& result) { return (result * result * (rank + 1)).sum(); }

// Each rank's result, given all arguments, computed by one process.
using InOneProcess = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>& arguments)>;
using OnRanks = std::function<torch::Tensor(const torch::Tensor& argument, World& world)>;

// Compares this rank's result, its gradient, and the gradient of a function of the gradient.
void check(World& world, const OnRanks& on_ranks, const InOneProcess& in_one_process) {
  std::vector<torch::Tensor> arguments;
  for (int rank = 0; rank < kRanks; ++rank) arguments.push_back(argument_of(rank));
  torch::Tensor expected_loss;
  const std::vector<torch::Tensor> results = in_one_process(arguments);
  for (int rank = 0; rank < kRanks; ++rank) {
    const torch::Tensor loss = loss_of(rank, results[rank]);
    expected_loss = rank == 0 ? loss : expected_loss + loss;
  }
  torch::Tensor own = argument_of(world.rank());
  const torch::Tensor result = on_ranks(own, world);
  EXPECT_TRUE(result.equal(results[world.rank()]));
  const auto gradient = torch::autograd::grad({loss_of(world.rank(), result)}, {own}, {}, true, true)[0];
  const auto expected = torch::autograd::grad({expected_loss}, arguments, {}, true, true);
  // The sums of a gradient are in another order than autograd's.
  EXPECT_TRUE(gradient.allclose(expected[world.rank()], 1e-12, 1e-12));
  torch::Tensor squares;
  for (const torch::Tensor& one : expected) squares = squares.defined() ? squares + one.pow(2).sum() : one.pow(2).sum();
  const auto second = torch::autograd::grad({gradient.pow(2).sum()}, {own})[0];
  const auto expected_second = torch::autograd::grad({squares}, {arguments[world.rank()]})[0];
  EXPECT_TRUE(second.allclose(expected_second, 1e-12, 1e-9));
}

torch::Tensor sum_of(const std::vector<torch::Tensor>& tensors) {
  torch::Tensor sum = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) sum = sum + tensors[i];
  return sum;
}

TEST(Differentiable, AllReduceOfResultsThatRanksUseInTheirOwnWays) {
  run_ranks(kRanks, [](World& world) {
    check(
        world, [](const torch::Tensor& own, World& world) { return differentiable::all_reduce(own, world); },
        [](const std::vector<torch::Tensor>& all) { return std::vector<torch::Tensor>(kRanks, sum_of(all)); });
  });
}

TEST(Differentiable, AllGatherAlongAnyDimension) {
  run_ranks(kRanks, [](World& world) {
    for (const int64_t dim : {0, 1, -1})
      check(
          world, [=](const torch::Tensor& own, World& world) { return differentiable::all_gather(own, world, dim); },
          [=](const std::vector<torch::Tensor>& all) {
            return std::vector<torch::Tensor>(kRanks, torch::cat(all, dim));
          });
  });
}

TEST(Differentiable, ReduceScatterAlongAnyDimension) {
  run_ranks(kRanks, [](World& world) {
    for (const int64_t dim : {0, 1, -2})
      check(
          world,
          [=](const torch::Tensor& own, World& world) { return differentiable::reduce_scatter(own, world, dim); },
          [=](const std::vector<torch::Tensor>& all) { return sum_of(all).chunk(kRanks, dim); });
  });
}

TEST(Differentiable, AllToAll) {
  run_ranks(kRanks, [](World& world) {
    check(
        world,
        [](const torch::Tensor& own, World& world) {
          return torch::cat(differentiable::all_to_all(own.chunk(kRanks), world));
        },
        [](const std::vector<torch::Tensor>& all) {
          std::vector<torch::Tensor> results;
          for (int to = 0; to < kRanks; ++to) {
            std::vector<torch::Tensor> parts;
            for (const torch::Tensor& one : all) parts.push_back(one.chunk(kRanks)[to]);
            results.push_back(torch::cat(parts));
          }
          return results;
        });
  });
}

// A row-parallel product: each rank has a part of the inner dimension, and all compute one loss from the sum.
TEST(Differentiable, ALossThatAllRanksComputeCountsOnce) {
  run_ranks(kRanks, [](World& world) {
    torch::Tensor own = argument_of(world.rank());
    const torch::Tensor sum = differentiable::all_reduce(own, world, ResultUse::Alike);
    const torch::Tensor all = differentiable::all_gather(own, world, 0, ResultUse::Alike);
    ((sum * sum).sum() + (all * all * all).sum()).backward();
    EXPECT_TRUE(own.grad().allclose((2 * sum + 3 * own * own).detach(), 1e-12, 1e-12));
  });
}

// The second derivative: of the sum of the squares of all ranks' gradients.
TEST(Differentiable, GradientsOfGradientsCountAllRanks) {
  run_ranks(2, [](World& world) {
    const auto second_derivative = [&](const std::function<torch::Tensor(const torch::Tensor&)>& result_of) {
      torch::Tensor own = torch::full({2}, 1.0, torch::kFloat64).requires_grad_();
      const torch::Tensor loss = result_of(own).sum().pow(2);
      const torch::Tensor gradient = torch::autograd::grad({loss}, {own}, {}, true, true)[0];
      return torch::autograd::grad({gradient.pow(2).sum()}, {own})[0];
    };
    // The loss is (s0 + s1)^2 for the sums s of the arguments, in both cases.
    torch::Tensor first = torch::full({2}, 1.0, torch::kFloat64).requires_grad_(),
                  other = first.detach().clone().requires_grad_();
    const torch::Tensor loss = (first.sum() + other.sum()).pow(2);
    const auto gradients = torch::autograd::grad({loss}, {first, other}, {}, true, true);
    const torch::Tensor expected =
        torch::autograd::grad({gradients[0].pow(2).sum() + gradients[1].pow(2).sum()}, {first})[0];
    EXPECT_TRUE(expected.equal(second_derivative(
        [&](const torch::Tensor& own) { return differentiable::all_reduce(own, world, ResultUse::Alike); })));
    EXPECT_TRUE(expected.equal(second_derivative(
        [&](const torch::Tensor& own) { return differentiable::all_gather(own, world, 0, ResultUse::Alike); })));
  });
}

TEST(Differentiable, ResultsMayBeWritten) {
  run_ranks(2, [](World& world) {
    torch::Tensor own = torch::ones({2, 4}).requires_grad_();
    for (const int64_t dim : {0, 1}) differentiable::reduce_scatter(own * 1, world, dim).add_(1).sum().backward();
    EXPECT_TRUE(own.grad().eq(2).all().item<bool>());
  });
}

TEST(Differentiable, ARankThatUsesNoResultTakesPart) {
  run_ranks(2, [](World& world) {
    torch::Tensor first = torch::ones({2}).requires_grad_(), second = torch::ones({3}).requires_grad_();
    const auto arrived = differentiable::all_to_all({first, second}, world);
    // Rank 0 uses what comes from rank 1 alone, and rank 1 what comes from itself.
    (arrived[1] * 5).sum().backward();
    EXPECT_TRUE(first.grad().eq(world.rank() == 1 ? 5 : 0).all().item<bool>());
    EXPECT_TRUE(second.grad().eq(world.rank() == 1 ? 5 : 0).all().item<bool>());
  });
}

TEST(Differentiable, NothingIsRecordedWithoutGradients) {
  run_ranks(2, [](World& world) {
    EXPECT_FALSE(differentiable::all_reduce(torch::ones({2}), world).requires_grad());
    torch::NoGradGuard no_grad;
    EXPECT_FALSE(differentiable::all_gather(torch::ones({2}).requires_grad_(), world).requires_grad());
    const auto message =
        testing::message_of([&] { differentiable::all_reduce(torch::ones({2}, torch::kInt64), world); });
    EXPECT_NE(message.find("found a Long tensor, which has no gradient"), std::string::npos) << message;
    EXPECT_NE(testing::message_of([&] { differentiable::all_gather(torch::ones({2}), world, 1); }).find("dimension 1"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace fsdp
