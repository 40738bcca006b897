// The trainings whose checkpoints of version 3 are kept beside the tests (tests/checkpoint/version3/).
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/fsdp.h>

#include <string>
#include <vector>

namespace fsdp::testing {

struct Version3Kind {
  std::string name;  // of the folder, with its checkpoint and `expected.safetensors`: each tensor, whole
  int ranks = 1;     // that saved it
  int shard_group_size = 0;
  StateDtype state_dtype = StateDtype::Float32;
};

inline const std::vector<Version3Kind> kVersion3Kinds = {
    {"full-shard-2", 2},
    {"hybrid-4", 4, 2},
    {"block8-3", 3, 0, StateDtype::Block8},
};

// A module with buffers, whose matrix is divided at 2 ranks and at 3. Made on every rank.
struct Version3Training {
  Version3Training(World& world, const Version3Kind& kind, const Options& options)
      : sharded(shard(*model, world, options)),
        optimizer(sharded, {.lr = 1e-2, .state_dtype = kind.state_dtype}),
        generator(at::make_generator<at::CPUGeneratorImpl>(uint64_t{40} + world.rank())) {}

  Checkpoint checkpoint() { return {.model = &sharded, .optimizer = &optimizer}; }
  // The next number that this rank draws.
  int64_t draw() { return torch::randint(1 << 30, {1}, generator).item<int64_t>(); }

  torch::nn::Sequential model{torch::nn::Linear(20, 16), torch::nn::BatchNorm1d(16), torch::nn::Linear(16, 9)};
  ShardedModel sharded;
  AdamW optimizer;
  at::Generator generator;
};

}  // namespace fsdp::testing
