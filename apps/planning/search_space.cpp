#include "planning/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "models/block_costs.h"
#include "options/mesh_choice.h"
#include "plan/strategies.h"

namespace trainer {

namespace {

using Settings = std::vector<SearchSetting>;

constexpr std::array<const char*, 3> kRecomputations = {"none", "selective", "all"};
constexpr int64_t kMostPrefetch = 2, kMostPipeline = 64;

struct PipelineOrder {
  const char* schedule;
  int64_t stages_per_rank;
};
constexpr std::array<PipelineOrder, 3> kOrders = {
    {{"one-forward-one-backward", 1}, {"interleaved", 2}, {"zero-bubble", 1}}};

struct UnitOrder {
  int64_t layers_per_unit, prefetch;
};
constexpr std::array<int64_t, 2> kLayersPerUnit = {2, 4};  // besides one

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    divisors.push_back(i);
    if (i * i != number) divisors.push_back(number / i);
  }
  std::ranges::sort(divisors);
  return divisors;
}

bool are_powers_of_two(int64_t number) { return (number & (number - 1)) == 0; }

class SettingMaker {
 public:
  SettingMaker(const PlanTarget& target, const RunOptions& options)
      : target_(target), options_(options), blocks_(std::ssize(models::blocks(options.model))) {}

  // Without strategies, micro-batches and recomputation.
  Settings shapes(int64_t ranks) const {
    Settings all;
    SearchSetting given = SearchSetting::of(options_);
    given.ranks = ranks;
    for (const int64_t tensor : tensor_sizes(ranks)) {
      for (const int64_t pipeline : pipeline_sizes(ranks / tensor)) {
        for (const bool has_slices : slices(tensor)) {
          for (const auto& [schedule, stages_per_rank] : orders(pipeline)) {
            SearchSetting shape = given;
            shape.tensor = tensor;
            shape.pipeline = pipeline;
            shape.has_slices = has_slices;
            shape.schedule = schedule;
            shape.stages_per_rank = stages_per_rank;
            if (is_possible(shape)) all.push_back(shape);
          }
        }
      }
    }
    return all;
  }

  // Strategies, and numbers of ranks that share the state.
  Settings shardings(const SearchSetting& shape) const {
    Settings all;
    const int64_t data = shape.ranks / shape.pipeline / shape.tensor;
    const auto add = [&](const std::string& strategy, int64_t group) {
      all.push_back(shape);
      all.back().strategy = strategy;
      all.back().group = group;
    };
    for (const std::string& strategy : strategies(shape, data)) {
      add(strategy, options_.shard_group_size);
      const bool has_groups = strategy == "full-shard" || strategy == "shard-grad-op";
      if (!has_groups || !is_free("--shard-group-size")) continue;
      // Groups larger than a host. The hybrid strategies have those of a host.
      for (int64_t group = 2 * ranks_of_host(shape); group < data; group *= 2) {
        if (data % group == 0) add(strategy, group);
      }
    }
    return all;
  }

  Settings passes(const SearchSetting& sharding, int64_t sequences) const {
    Settings all;
    for (const int64_t batch : divisors_of(sequences)) {
      const int64_t micro_batches = sequences / batch;
      if (sharding.stages_per_rank > 1 && micro_batches % sharding.pipeline != 0) continue;
      for (const std::string& recomputation : recomputations()) {
        for (const auto& [layers_per_unit, prefetch] : unit_orders(sharding)) {
          SearchSetting setting = sharding;
          setting.layers_per_unit = layers_per_unit;
          setting.batch = batch;
          setting.micro_batches = micro_batches;
          setting.recomputation = recomputation;
          setting.prefetch = prefetch;
          if (is_free("--buffers")) setting.buffers = std::max<int64_t>(2, prefetch + 1);
          all.push_back(std::move(setting));
        }
      }
    }
    return all;
  }

 private:
  bool is_free(const char* flag) const { return !options_.chosen.flags.contains(flag); }
  bool allows_meshes() const { return target_.engine == "libfsdp" && !target_.hardware.has_cpus(); }

  RunOptions options_with(int64_t ranks) const {
    RunOptions run = options_;
    run.ranks = ranks;
    return run;
  }
  // Data ranks on a host.
  int64_t ranks_of_host(const SearchSetting& shape) const {
    const int64_t on_host = shape.ranks / hosts_of_run(shape.applied_to(options_), target_.hardware);
    return std::max<int64_t>(1, on_host / (shape.tensor * shape.pipeline));
  }

  std::vector<int64_t> tensor_sizes(int64_t ranks) const {
    if (!allows_meshes() || !is_free("--tensor-parallel") || !is_free("--tensor-parts"))
      return {options_.tensor_parallel};
    const int64_t on_host = ranks / hosts_of_run(options_with(ranks), target_.hardware);
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size <= on_host; size *= 2) {
      if (on_host % size == 0) sizes.push_back(size);
    }
    return sizes;
  }

  std::vector<int64_t> pipeline_sizes(int64_t ranks) const {
    if (!allows_meshes() || !is_free("--pipeline-parallel")) return {options_.pipeline_parallel};
    std::vector<int64_t> sizes;
    for (const int64_t size : divisors_of(ranks)) {
      if (size <= kMostPipeline && size <= options_.model.layers && are_powers_of_two(size)) sizes.push_back(size);
    }
    return sizes;
  }

  std::vector<bool> slices(int64_t tensor) const {
    if (tensor == 1) return {options_.sequence_parallel && options_.parts() > 1};
    if (!is_free("--sequence-parallel")) return {options_.sequence_parallel};
    return {false, true};
  }

  std::vector<PipelineOrder> orders(int64_t pipeline) const {
    const PipelineOrder given{options_.pipeline_schedule.c_str(), options_.stages_per_rank};
    const bool is_given = !is_free("--pipeline-schedule") || !is_free("--stages-per-rank") || !is_free("--stages");
    if (pipeline == 1 || is_given) return {given};
    std::vector<PipelineOrder> possible;
    for (const PipelineOrder& order : kOrders) {
      if (order.stages_per_rank * pipeline <= blocks_) possible.push_back(order);
    }
    return possible;
  }

  bool is_possible(const SearchSetting& shape) const {
    if (shape.ranks % (shape.pipeline * shape.tensor) != 0) return false;
    const RunOptions run = shape.applied_to(options_);
    return run.stage_count() <= blocks_ && mesh_contradictions(run).empty() && mesh_problems(run).empty();
  }

  // Hybrids divide among the ranks of a host: with one host they are the strategies that they are made of.
  std::vector<std::string> strategies(const SearchSetting& shape, int64_t data) const {
    if (!is_free("--strategy")) return {options_.strategy};
    if (data == 1) return {"full-shard"};
    const int64_t on_host = ranks_of_host(shape);
    const bool has_hybrids = on_host > 1 && on_host < data && data % on_host == 0 && is_free("--shard-group-size");
    std::vector<std::string> all;
    for (const std::string strategy : kStrategies) {
      const bool is_hybrid = strategy.starts_with("hybrid");
      if (is_hybrid ? has_hybrids : strategy != "no-shard" || options_.shard_group_size <= 1) all.push_back(strategy);
    }
    return all;
  }

  std::vector<std::string> recomputations() const {
    if (!is_free("--activation-checkpoint")) return {options_.activation_checkpoint};
    return {kRecomputations.begin(), kRecomputations.end()};
  }

  // Larger units, or more of them ahead.
  std::vector<UnitOrder> unit_orders(const SearchSetting& sharding) const {
    std::vector<UnitOrder> all;
    const std::vector<int64_t> ahead = prefetches(sharding);
    for (const int64_t prefetch : ahead) all.push_back({options_.layers_per_unit, prefetch});
    const bool is_alone = sharding.ranks == sharding.pipeline * sharding.tensor;
    if (!is_free("--layers-per-unit") || is_alone) return all;
    for (const int64_t layers : kLayersPerUnit) {
      if (layers <= options_.model.layers / sharding.pipeline / sharding.stages_per_rank)
        all.push_back({layers, ahead.front()});
    }
    return all;
  }

  // Only strategies whose units share buffers gather ahead of a second use.
  std::vector<int64_t> prefetches(const SearchSetting& sharding) const {
    if (!is_free("--prefetch")) return {options_.prefetch};
    const bool shares_buffers =
        fsdp::plan::named_strategy(sharding.strategy).full_until == fsdp::schedule::FullUntil::BufferNeeded;
    const bool is_alone = sharding.ranks == sharding.pipeline * sharding.tensor;
    std::vector<int64_t> all = {1};
    for (int64_t more = 2; more <= kMostPrefetch && shares_buffers && !is_alone; ++more) {
      if (is_free("--buffers") || more < options_.buffers) all.push_back(more);
    }
    return all;
  }

  const PlanTarget& target_;
  const RunOptions& options_;
  int64_t blocks_;
};

}  // namespace

std::vector<SearchSetting> search_space(const PlanTarget& target, const RunOptions& options,
                                        const std::vector<int64_t>& ranks) {
  const SettingMaker maker(target, options);
  const int64_t sequences = options.data_ranks() * options.batch * options.micro_batches;
  std::vector<SearchSetting> all;
  for (const int64_t count : ranks) {
    for (const SearchSetting& shape : maker.shapes(count)) {
      const int64_t data = shape.ranks / (shape.pipeline * shape.tensor);
      if (sequences % data != 0) continue;
      for (const SearchSetting& sharding : maker.shardings(shape)) {
        std::vector<SearchSetting> passes = maker.passes(sharding, sequences / data);
        all.insert(all.end(), std::make_move_iterator(passes.begin()), std::make_move_iterator(passes.end()));
      }
    }
  }
  return all;
}

}  // namespace trainer
