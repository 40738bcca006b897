#include "planning/planned_sharding.h"

#include <numeric>

#include "planning/element_bytes.h"

namespace trainer {

namespace {

fsdp::plan::MomentBytes moment_of(const RunOptions& options) {
  if (options.optimizer_state == "8bit") return {.per_element = 1, .per_block = 4};
  return {element_bytes(options.optimizer_state)};
}

}  // namespace

fsdp::plan::Sharding planned_sharding(const RunOptions& options, int64_t hosts, bool on_gpus) {
  const int64_t ranks = options.data_ranks();
  // A group that the strategy or the ranks do not allow is refused when the model is sharded: here it is one that they
  // allow.
  const bool is_given = options.shard_group_size > 0 && options.strategy != "no-shard";
  const int64_t group = is_given ? std::gcd(ranks, options.shard_group_size) : 0;
  fsdp::plan::Sharding sharding = fsdp::plan::sharding_of(options.strategy, ranks, hosts, group);
  sharding.sums_in_place = options.strategy == "no-shard" && options.reduce_dtype == "fp32" && hosts == 1 && !on_gpus;
  sharding.one_micro_batch = options.micro_batches == 1;
  sharding.param_bytes = element_bytes(options.param_dtype);
  sharding.reduce_bytes = element_bytes(options.reduce_dtype);
  sharding.buffers = options.buffers;
  sharding.on_gpus = on_gpus;
  sharding.shards_on_host = on_gpus && options.cpu_offload;
  sharding.muon = options.optimizer == "muon";
  sharding.moment = moment_of(options);
  sharding.offloads_state = options.offloads();
  sharding.offloads_shards = options.offload == "all";
  sharding.copies_for_saves = options.saves_beside_steps() && !options.offloads() && !on_gpus;
  return sharding;
}

}  // namespace trainer
