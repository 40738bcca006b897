// A Sampler deals the same samples to the same micro-batches on any number of ranks, and goes on where it was saved.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/permutation.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<int64_t>;

constexpr int64_t kSamples = 50, kMicroBatches = 12;

SamplerOptions some_options() { return {.batch_size = 3, .micro_batches = kMicroBatches, .seed = 5}; }

// The samples of micro-batch `number` of the job, counted from the first step on.
Numbers dealt(int64_t number, const SamplerOptions& options, int64_t samples = kSamples) {
  const int64_t step = options.batch_size * options.micro_batches;
  const int64_t epoch = options.drop_last ? samples / step * step : samples;
  Numbers numbers;
  for (int64_t place = number * options.batch_size; place < (number + 1) * options.batch_size; ++place) {
    numbers.push_back(Permutation(samples, options.seed, static_cast<uint64_t>(place / epoch)).at(place % epoch));
  }
  return numbers;
}

// Takes `calls` micro-batches on each rank, of which the first has the number `first` in the job.
void expect_calls(Sampler& sampler, const World& world, int64_t first, int64_t calls, const SamplerOptions& options) {
  for (int64_t call = 0; call < calls; ++call) {
    const int64_t number = first + call * world.size() + world.rank();
    EXPECT_EQ(sampler.micro_batch(), number % kMicroBatches);
    EXPECT_EQ(sampler.next(), dealt(number, options)) << "micro-batch " << number;
  }
}

TEST(Sampler, DealsTheSameMicroBatchesOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool drop_last : {false, true}) {
      run_ranks(ranks, [=](World& world) {
        SamplerOptions options = some_options();
        options.drop_last = drop_last;
        Sampler sampler(kSamples, world, options);
        EXPECT_EQ(sampler.rounds(), kMicroBatches / world.size());
        expect_calls(sampler, world, 0, 5 * sampler.rounds(), options);
      });
    }
  }
}

TEST(Sampler, VisitsEachSampleOncePerEpochInAnOrderOfTheEpochAndTheSeed) {
  run_ranks(1, [](World& world) {
    std::set<Numbers> orders;
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, std::numeric_limits<uint64_t>::max()}) {
      Sampler sampler(kSamples, world, {.batch_size = 10, .seed = seed});
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        Numbers all;
        for (int64_t call = 0; call < kSamples / 10; ++call) {
          EXPECT_EQ(sampler.epoch(), epoch);
          const Numbers numbers = sampler.next();
          all.insert(all.end(), numbers.begin(), numbers.end());
        }
        EXPECT_TRUE(orders.insert(all).second);
        EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), static_cast<size_t>(kSamples));
        EXPECT_EQ(std::ranges::max(all), kSamples - 1);
      }
    }
  });
}

TEST(Sampler, EndsAnEpochWithinAStepOrWithOne) {
  run_ranks(1, [](World& world) {
    SamplerOptions options{.batch_size = 2, .micro_batches = 2, .shuffle = false};
    Sampler goes_on(5, world, options);
    EXPECT_EQ(goes_on.steps_per_epoch(), 2);
    EXPECT_THAT(goes_on.next(), ElementsAre(0, 1));
    EXPECT_THAT(goes_on.next(), ElementsAre(2, 3));
    EXPECT_THAT(goes_on.next(), ElementsAre(4, 0));
    EXPECT_EQ(goes_on.epoch(), 1);
    options.drop_last = true;
    Sampler drops(5, world, options);
    EXPECT_EQ(drops.steps_per_epoch(), 1);
    drops.next();
    EXPECT_EQ(drops.epoch(), 0);
    drops.next();
    EXPECT_EQ(drops.epoch(), 1);
    EXPECT_THAT(drops.next(), ElementsAre(0, 1));
    Sampler few(3, world, {.batch_size = 4, .shuffle = false});  // more than an epoch in a micro-batch
    EXPECT_EQ(few.steps_per_epoch(), 1);
    EXPECT_THAT(few.next(), ElementsAre(0, 1, 2, 0));
    Sampler one_each(8, world);
    EXPECT_EQ(one_each.next().size(), 1u);
  });
}

TEST(Sampler, HasOneMicroBatchPerRankUnlessToldOtherwise) {
  run_ranks(3, [](World& world) {
    Sampler sampler(10, world, {.batch_size = 2, .shuffle = false});
    EXPECT_EQ(sampler.rounds(), 1);
    EXPECT_EQ(sampler.micro_batch(), world.rank());
    EXPECT_THAT(sampler.next(), ElementsAre(2 * world.rank(), 2 * world.rank() + 1));
    EXPECT_EQ(sampler.steps_per_epoch(), 2);
  });
}

// Also within a step, where the new number of ranks does not divide what is left of it.
TEST(Sampler, ResumesAnywhereOnAnotherNumberOfRanks) {
  for (const int ranks : {1, 4}) {
    run_ranks(ranks, [](World& world) {
      const World alone = world.split(world.rank());
      for (const bool drop_last : {false, true}) {
        SamplerOptions options = some_options();
        options.drop_last = drop_last;
        Sampler sampler(kSamples, alone, options);
        for (int64_t calls = 0; calls < 30; ++calls) {
          Sampler resumed(kSamples, world, options);
          resumed.next();
          resumed.load_state(sampler.state());
          EXPECT_EQ(resumed.state(), sampler.state());
          expect_calls(resumed, world, calls, 10, options);
          sampler.next();
        }
      }
    });
  }
}

TEST(Sampler, ResumesWithOtherSteps) {
  run_ranks(1, [](World& world) {
    Sampler sampler(10, world, {.batch_size = 3, .shuffle = false});
    for (int call = 0; call < 4; ++call) sampler.next();
    Sampler resumed(10, world, {.batch_size = 2, .micro_batches = 4, .shuffle = false});
    resumed.load_state(sampler.state());
    EXPECT_EQ(resumed.epoch(), 1);
    EXPECT_THAT(resumed.next(), ElementsAre(2, 3));
  });
}

TEST(Sampler, ACopyGoesOnByItself) {
  run_ranks(1, [](World& world) {
    Sampler sampler(kSamples, world, some_options());
    sampler.next();
    Sampler copy = sampler;
    EXPECT_EQ(copy.next(), sampler.next());
  });
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  run_ranks(2, [](World& world) {
    const auto message = [&](int64_t samples, const SamplerOptions& options) {
      return message_of<Error>([&] { Sampler(samples, world, options); });
    };
    EXPECT_THAT(message(0, {}), HasSubstr("found 0 samples"));
    EXPECT_THAT(message(std::numeric_limits<int64_t>::max(), {}), HasSubstr("samples"));
    EXPECT_THAT(message(10, {.batch_size = 0}), HasSubstr("batch_size of 0"));
    EXPECT_THAT(message(10, {.micro_batches = 3}), AllOf(HasSubstr("3 micro_batches"), HasSubstr("2 ranks")));
    EXPECT_THAT(message(10, {.micro_batches = -2}), HasSubstr("-2 micro_batches"));
    EXPECT_THAT(message(10, {.batch_size = std::numeric_limits<int64_t>::max()}), HasSubstr("64 bits"));
    EXPECT_THAT(message(10, {.batch_size = int64_t{1} << 61, .micro_batches = 4}), HasSubstr("64 bits"));
    EXPECT_THAT(message(7, {.batch_size = 4, .drop_last = true}), HasSubstr("a step takes 8"));
    EXPECT_EQ(message(8, {.batch_size = 4, .drop_last = true}), "no error");
    EXPECT_EQ(message(int64_t{1} << 62, {}), "no error");
  });
}

TEST(Sampler, RefusesTheStateOfAnother) {
  run_ranks(1, [](World& world) {
    SamplerOptions options = some_options();
    options.drop_last = true;
    Sampler sampler(kSamples, world, options);
    sampler.next();
    const std::string state = sampler.state();
    const auto message = [&](int64_t samples, const SamplerOptions& others, const std::string& text) {
      return message_of<Error>([&] { Sampler(samples, world, others).load_state(text); });
    };
    EXPECT_EQ(message(kSamples, options, state), "no error");
    EXPECT_THAT(message(kSamples + 1, options, state), AllOf(HasSubstr("samples = 50"), HasSubstr("has 51")));
    SamplerOptions others = options;
    others.seed = 6;
    EXPECT_THAT(message(kSamples, others, state), HasSubstr("seed = 5"));
    others = options;
    others.shuffle = false;
    EXPECT_THAT(message(kSamples, others, state), HasSubstr("shuffle = true"));
    others = options;
    others.drop_last = false;
    EXPECT_THAT(message(kSamples, others, state), HasSubstr("drop_last = true"));
    others = options;
    others.batch_size = 2;
    EXPECT_THAT(message(kSamples, others, state), HasSubstr("samples_per_step = 36"));
    for (const std::string& text : {"", "sampler", "{}", "[1]", R"({"taken": -1})", R"({"taken": 1.5})",
                                    R"({"taken": 9223372036854775807})", R"({"taken": 3})"}) {
      EXPECT_THAT(message(kSamples, options, text), HasSubstr("Sampler: the state")) << text;
    }
    EXPECT_EQ(sampler.state(), state);
  });
}

// Data, a model with dropout and a training as a program has them, from `first` to `last`; saved at the end.
void train_sampled(World& world, const std::string& folder, int64_t first, int64_t last, torch::Tensor* weights) {
  torch::manual_seed(1);
  const torch::Tensor data = torch::rand({kSamples, 6});
  torch::nn::Sequential net(torch::nn::Linear(6, 9), torch::nn::Dropout(0.3), torch::nn::Linear(9, 1));
  auto sharded = shard(*net, world);
  AdamW optimizer(sharded, {.lr = 1e-2});
  sharded.set_gradient_divisor(kMicroBatches);
  Sampler sampler(kSamples, world, some_options());
  Checkpoint checkpoint{.model = &sharded, .optimizer = &optimizer};
  if (first > 0) {
    const auto loaded = load_latest_checkpoint(folder, checkpoint);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->step, first);
    sampler.load_state(checkpoint_notes(loaded->directory).at("sampler"));
  }
  for (int64_t step = first; step < last; ++step) {
    for (int64_t round = 0; round < sampler.rounds(); ++round) {
      seed_micro_batch(3, step, sampler.micro_batch());
      const torch::Tensor batch = data.index_select(0, torch::tensor(sampler.next()));
      (net->forward(batch) - batch.sum(1, true)).square().mean().backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  checkpoint.step = last;
  checkpoint.notes = {{"sampler", sampler.state()}};
  save_checkpoint(folder + "/step-" + std::to_string(last), checkpoint);
  std::vector<torch::Tensor> all;
  for (const auto& [name, tensor] : sharded.full_state()) all.push_back(tensor.flatten());
  *weights = torch::cat(all);
}

TEST(Sampler, TrainsToTheSameBitsOnAnyNumberOfRanksAndAfterResuming) {
  const ScratchDirectory scratch;
  const std::string file = (scratch.path() / "weights.pt").string();
  run_ranks(1, [&](World& world) {
    torch::Tensor weights;
    train_sampled(world, scratch.path() / "whole", 0, 6, &weights);
    torch::save(weights, file);
  });
  for (const int ranks : {2, 3, 4}) {
    const std::string folder = scratch.path() / std::to_string(ranks);
    run_ranks(ranks, [&](World& world) {
      torch::Tensor weights;
      train_sampled(world, folder, 0, 3, &weights);
    });
    run_ranks(5 - ranks, [&](World& world) {
      torch::Tensor weights, whole;
      train_sampled(world, folder, 3, 6, &weights);
      torch::load(whole, file);
      EXPECT_TRUE(torch::equal(weights, whole));
    });
  }
}

}  // namespace
}  // namespace fsdp
