// Gradients that the user sets, zeroes or steps on in parts: what one process makes of them.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Weights;
using Pieces = std::vector<torch::Tensor>;

// A model that a program trains: with whole parameters in one process, with pieces over ranks.
struct Trained {
  TestModel model = make_gpt();
  std::vector<std::string> names;
  Pieces parameters;
  // Adds the mean gradients of one micro-batch per rank.
  std::function<void(int step)> backward;
};

Trained in_one_process(int ranks) {
  Trained one;
  for (const auto& parameter : one.model.module->named_parameters()) {
    one.names.push_back(parameter.key());
    one.parameters.push_back(parameter.value());
  }
  // The sum over micro-batches, ended by the factor 1 / ranks, after what was there.
  one.backward = [model = one.model, parameters = one.parameters, ranks](int step) {
    Pieces before;
    for (const auto& parameter : parameters) before.push_back(parameter.grad());
    for (const auto& parameter : parameters) torch::Tensor(parameter).mutable_grad().reset();
    for (int rank = 0; rank < ranks; ++rank) model.loss(step * ranks + rank).backward();
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      torch::Tensor mean = parameters[i].grad().mul_(static_cast<float>(1.0 / ranks));
      torch::Tensor(parameters[i]).mutable_grad() = before[i].defined() ? before[i].add_(mean) : mean;
    }
  };
  return one;
}

// In units that end where their blocks do; every rank trains its own micro-batches.
Trained over_ranks(const ShardedModel& sharded, TestModel model, const World& world) {
  Trained one;
  one.model = model;
  for (const ShardedParameter& parameter : sharded.parameters()) {
    one.names.push_back(parameter.name);
    one.parameters.push_back(parameter.piece);
  }
  one.backward = [model, &world](int step) { model.loss(step * world.size() + world.rank()).backward(); };
  return one;
}

using Program = std::function<void(Trained& trained)>;

std::vector<std::string> differences_after(const Program& program, World& world, const Options& options) {
  Trained expected = in_one_process(world.size());
  program(expected);
  Weights weights;
  for (size_t i = 0; i < expected.names.size(); ++i) weights.emplace_back(expected.names[i], expected.parameters[i]);
  const TestModel model = make_gpt();
  auto sharded = shard(*model.module, world, options);
  Trained found = over_ranks(sharded, model, world);
  program(found);
  return testing_models::differences(weights, testing_models::whole_weights(*model.module, sharded));
}

class OwnGradients : public ::testing::TestWithParam<int> {
 protected:
  // That the program ends with the bits of one process.
  static void expect_bits_of_one_process(const Program& program) {
    run_ranks(GetParam(), [&program](World& world) {
      for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::NoShard}) {
        EXPECT_THAT(differences_after(program, world, {.strategy = strategy}), IsEmpty());
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, OwnGradients, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

Pieces named(const Trained& trained, const std::function<bool(const std::string& name)>& wanted) {
  Pieces found;
  for (size_t i = 0; i < trained.names.size(); ++i) {
    if (wanted(trained.names[i])) found.push_back(trained.parameters[i]);
  }
  return found;
}

bool is_bias(const std::string& name) { return name.ends_with("bias"); }
bool is_no_bias(const std::string& name) { return !is_bias(name); }

torch::optim::SGD momentum(Pieces parameters) {
  return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(0.1).momentum(0.9));
}

TEST_P(OwnGradients, SetWithoutABackwardAreUsedAsTheyAre) {
  expect_bits_of_one_process([](Trained& trained) {
    torch::optim::SGD optimizer(trained.parameters, 0.1);
    for (auto& parameter : trained.parameters) parameter.mutable_grad() = torch::full_like(parameter.detach(), 0.3);
    optimizer.step();
  });
}

TEST_P(OwnGradients, SetAfterABackwardTakeItsPlace) {
  expect_bits_of_one_process([](Trained& trained) {
    auto optimizer = momentum(trained.parameters);
    for (int step = 0; step < 3; ++step) {
      trained.backward(step);
      for (size_t i = 0; i < trained.parameters.size(); i += 2) {
        auto& parameter = trained.parameters[i];
        parameter.mutable_grad() = torch::full_like(parameter.detach(), 0.3);
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

// Its own optimizers and clipping take them in the same way.
TEST_P(OwnGradients, SetByHandAreSteppedUndivided) {
  run_ranks(GetParam(), [](World& world) {
    for (const bool clips : {false, true}) {
      auto first = torch::zeros({130}, torch::requires_grad()), second = torch::zeros({130}, torch::requires_grad());
      auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}, {"second", second}}, {}}}, world);
      SGD optimizer(sharded, {.lr = 1});
      first.sum().backward();
      auto set = sharded.parameters()[1].piece;
      set.mutable_grad() = torch::full({set.numel()}, 2.0);
      const double norm = std::sqrt(130.0 * (1 + 4));
      if (clips) {
        EXPECT_FLOAT_EQ(sharded.clip_grad_norm_(norm / 2), norm);
      }
      optimizer.step();
      const float factor = clips ? 0.5f : 1.0f;
      EXPECT_TRUE(torch::allclose(sharded.shards()[0].clone(), torch::full({sharded.shards()[0].numel()}, -factor)));
      EXPECT_TRUE(torch::allclose(set.clone(), torch::full({set.numel()}, -2 * factor)));
    }
  });
}

TEST_P(OwnGradients, ReadBeforeAStepAreDividedOnce) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel models[2] = {make_gpt(), make_gpt()};
    ShardedModel read = shard(*models[0].module, world), plain = shard(*models[1].module, world);
    SGD of_read(read, {.lr = 0.1}), of_plain(plain, {.lr = 0.1});
    for (int step = 0; step < 2; ++step) {
      for (const TestModel& model : models) model.loss(step * world.size() + world.rank()).backward();
      for (size_t i = 0; i < read.shards().size(); i += 3) read.shards()[i].grad().clone();
      if (step == 1) EXPECT_EQ(read.clip_grad_norm_(0.01), plain.clip_grad_norm_(0.01));
      of_read.step(), of_plain.step();
      of_read.zero_grad(), of_plain.zero_grad();
    }
    for (size_t i = 0; i < read.shards().size(); ++i)
      EXPECT_TRUE(torch::equal(read.shards()[i], plain.shards()[i])) << i;
  });
}

TEST(OwnGradients, SetBeforeABackwardThatAddsToThemAreAnErrorOnSeveralRanks) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](World& world) {
      const TestModel model = make_gpt();
      auto sharded = shard(*model.module, world);
      for (torch::Tensor piece : sharded.shards()) piece.mutable_grad() = torch::ones({piece.numel()});
      const std::string message = message_of([&] { model.loss(0).backward(); });
      if (world.size() == 1) {
        EXPECT_EQ(message, "no error");
      } else {
        EXPECT_THAT(message, AllOf(HasSubstr("was set by hand"), HasSubstr("after the last backward of the step")));
      }
      sharded.zero_grad();
      EXPECT_EQ(message_of([&] { model.loss(0).backward(); }), "no error");
    });
  }
}

TEST_P(OwnGradients, ThatAreZeroedInPlaceGoOnAsInOneProcess) {
  expect_bits_of_one_process([](Trained& trained) {
    auto optimizer = momentum(trained.parameters);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad(/*set_to_none=*/step % 2 == 1 && step < 3);
      trained.backward(step);
      optimizer.step();
    }
  });
}

TEST_P(OwnGradients, OfTwoOptimizersThatStepOneAfterTheOther) {
  for (const bool to_none : {true, false}) {
    expect_bits_of_one_process([to_none](Trained& trained) {
      auto weights = momentum(named(trained, is_no_bias));
      torch::optim::Adam biases(named(trained, is_bias), torch::optim::AdamOptions(0.01));
      for (int step = 0; step < 3; ++step) {
        trained.backward(step);
        weights.step();
        weights.zero_grad(to_none);
        biases.step();
        biases.zero_grad(to_none);
      }
    });
  }
}

// The second optimizer's gradients are the sum of both backwards.
TEST_P(OwnGradients, OfTwoOptimizersWithABackwardInBetween) {
  for (const bool to_none : {true, false}) {
    run_ranks(GetParam(), [to_none](World& world) {
      auto first = torch::zeros({130}, torch::requires_grad()), second = torch::zeros({130}, torch::requires_grad());
      auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}, {"second", second}}, {}}}, world);
      torch::optim::SGD a({sharded.shards()[0]}, 1), b({sharded.shards()[1]}, 1);
      const auto backward = [&] { (first.sum() + 2 * second.sum()).backward(); };
      const auto expect = [&](size_t piece, float value) {
        const torch::Tensor found = sharded.shards()[piece].clone();
        EXPECT_TRUE(torch::equal(found, torch::full_like(found, value))) << found;
      };
      for (int step = 1; step <= 3; ++step) {
        backward();
        a.step();
        a.zero_grad(to_none);
        backward();
        b.step();
        b.zero_grad(to_none);
        expect(0, static_cast<float>(-(2 * step - 1)));
        expect(1, static_cast<float>(-4 * step));
        a.step();
        a.zero_grad(to_none);
      }
    });
  }
}

TEST(OwnGradients, OfAPieceThatWasSteppedAndNotZeroedAreAnErrorInTheNextBackward) {
  run_ranks(2, [](World& world) {
    auto first = torch::zeros({130}, torch::requires_grad()), second = torch::zeros({130}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}, {"second", second}}, {}}}, world);
    torch::optim::SGD a({sharded.shards()[0]}, 1), b({sharded.shards()[1]}, 1);
    (first + second).sum().backward();
    a.step();
    EXPECT_THAT(message_of([&] { (first + second).sum().backward(); }), HasSubstr("Call zero_grad() first"));
    a.zero_grad();
    b.zero_grad();
    EXPECT_EQ(message_of([&] { (first + second).sum().backward(); }), "no error");
  });
}

TEST(OwnGradients, AGradientThatIsHeldKeepsItsValueWhereOnlyItsPieceIsReset) {
  run_ranks(2, [](World& world) {
    auto first = torch::zeros({130}, torch::requires_grad()), second = torch::zeros({130}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}, {"second", second}}, {}}}, world);
    (first + second).sum().backward();
    torch::Tensor piece = sharded.shards()[0];
    const torch::Tensor held = piece.grad(), value = held.clone();
    piece.mutable_grad().reset();
    (5 * first + second).sum().backward();
    EXPECT_TRUE(torch::equal(held, value));
    EXPECT_TRUE(torch::equal(sharded.shards()[1].grad().clone(), torch::full({sharded.shards()[1].numel()}, 2.0)));
    EXPECT_TRUE(torch::equal(piece.grad().clone(), torch::full({piece.numel()}, 5.0)));
  });
}

TEST(OwnGradients, BytesAreRefusedUntilTheFactorOfClippingIsIn) {
  run_ranks(2, [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    model.loss(world.rank()).backward();
    const double norm = sharded.clip_grad_norm_(1e-3);
    ASSERT_GT(norm, 1e-3);
    const auto gradient = [&] { return sharded.shards()[0].grad(); };
    EXPECT_THAT(message_of([&] { gradient().const_data_ptr<float>(); }),
                AllOf(HasSubstr("clip_grad_norm_"), HasSubstr("piece.grad().clone()")));
    const torch::Tensor copy = gradient().clone();
    const auto* bytes = gradient().const_data_ptr<float>();
    EXPECT_TRUE(std::equal(bytes, bytes + copy.numel(), copy.const_data_ptr<float>()));
  });
}

// After clipping, whose factor is NaN then.
TEST(GradientsNotFinite, AreNamedByTheRankThatHoldsThem) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks(fsdp::testing::Job{2, backend}, [](World& world) {
      torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      auto sharded = shard(*model, world);
      EXPECT_THAT(sharded.gradients_not_finite(), IsEmpty());
      const torch::Tensor input = torch::ones({1, 4});
      (model->forward(input).sum() + std::numeric_limits<float>::infinity() * model->named_parameters()["1.bias"].sum())
          .backward();
      EXPECT_FALSE(std::isfinite(sharded.clip_grad_norm_(1.0)));
      for (const std::string& name : sharded.gradients_not_finite()) EXPECT_EQ(name, "1.bias");
      torch::Tensor found = torch::tensor({static_cast<int64_t>(sharded.gradients_not_finite().size())});
      world.all_reduce_(found);
      EXPECT_GE(found.item<int64_t>(), 1);
    });
  }
}

}  // namespace
}  // namespace fsdp
