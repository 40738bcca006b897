// The options of ranks and of what is divided among them.
#include "options/option_groups.h"

namespace trainer {

namespace {

using O = Options;

}  // namespace

std::vector<Group> rank_groups() {
  return {
      {"Ranks",
       "ranks",
       {{"--ranks", &O::ranks, from(1, 1024), kTrain, "processes", "",
         "that share the model; under torchrun, SLURM or Open MPI theirs count"},
        {"--threads", &O::threads, from(0, 1024), kTrain | kSample | kPrepare, "threads", "the cores shared evenly",
         "a rank; of prepare, to encode with: all cores"},
        {"--timeout", &O::timeout, from(1, kMany), kTrainAndSample, "seconds", "", "that a rank waits for another"}}},
      {"Sharding",
       "sharding",
       {{"--strategy", &O::strategy, words(kStrategies), kTrain, "STRATEGY", "", "what is divided among the ranks"},
        {"--shard-group-size", &O::shard_group_size, from(0, 1024), kTrain, "ranks",
         "all, or a host's for hybrid strategies", "that hold the model once"},
        {"--param-dtype", &O::param_dtype, words(kDtypes), kTrainAndSample, "DTYPE", "",
         "of full parameters and the passes"},
        {"--reduce-dtype", &O::reduce_dtype, words(kDtypes), kTrain, "DTYPE", "",
         "of gradients between ranks; their sums are fp32"},
        {"--buffers", &O::buffers, from(2, 1024), kTrainAndSample, "units", "",
         "full at once, where gathers copy; a layer is a unit"},
        {"--prefetch", &O::prefetch, from(0, 1024), kTrainAndSample, "units", "", "gathered ahead"}}},
  };
}

}  // namespace trainer
