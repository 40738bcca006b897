// Training of a test's model on ranks, as a user writes it: the counterpart of the oracle.
#pragma once

#include <fsdp/fsdp.h>

#include <functional>
#include <optional>
#include <utility>

#include "support/models.h"
#include "support/oracle.h"

namespace fsdp::testing_models {

// Copies of the whole weights, by the first of their names, in the module's order. A collective.
Weights whole_weights(const torch::nn::Module& module, ShardedModel& sharded);

// Trains to the end; micro-batch b of a step runs on rank b % size. A collective.
void train(const TestModel& model, ShardedModel& sharded, World& world, const Training& training);

// A training of what `make` makes, and the weights that it ends with by the oracle's rule. The oracle trains when these
// are first asked for, and once, however many sharded runs are compared.
class Expected {
 public:
  Expected(std::function<TestModel()> make, Training training) : make_(std::move(make)), training_(training) {}
  TestModel make() const { return make_(); }
  const Training& training() const { return training_; }
  const Weights& weights();

 private:
  std::function<TestModel()> make_;
  Training training_;
  std::optional<Weights> weights_;
};

// Shards one that it makes, trains it, and expects on rank 0 the bits of the oracle's. Returns how the sharded model
// communicated. A collective.
CommunicationReport expect_same_bits(Expected& expected, World& world, Options options = {});
CommunicationReport expect_same_bits(const std::function<TestModel()>& make, World& world, const Training& training,
                                     Options options = {});

// The strategies that divide the model over all ranks; on four ranks those that divide it over two, too.
std::vector<std::pair<std::string, Options>> every_strategy(int ranks);

// `expect_same_bits` with each of those. A collective.
void expect_same_bits_with_every_strategy(const std::function<TestModel()>& make, World& world,
                                          const Training& training);

}  // namespace fsdp::testing_models
