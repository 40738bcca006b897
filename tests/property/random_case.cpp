#include "property/random_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace fsdp::property {

namespace {

struct Sharding {
  Strategy strategy;
  const char* name;
  bool hybrid;
};

// A line here puts a strategy under test.
const std::vector<Sharding> kShardings = {
    {Strategy::FullShard, "FullShard", false},           {Strategy::ShardGradOp, "ShardGradOp", false},
    {Strategy::ShardOptimizer, "ShardOptimizer", false}, {Strategy::NoShard, "NoShard", false},
    {Strategy::HybridShard, "HybridShard", true},        {Strategy::HybridShardGradOp, "HybridShardGradOp", true},
};
constexpr int kLargestWorld = 4;

std::vector<Cell> make_cells() {
  std::vector<Cell> cells;
  for (int ranks = 1; ranks <= kLargestWorld; ++ranks) {
    for (const Sharding& sharding : kShardings) {
      for (int group = 1; group <= ranks; ++group) {
        if (sharding.hybrid ? ranks % group != 0 : group < ranks) continue;
        for (const std::string& backend : backends_of(ranks)) {
          for (bool bf16 : {false, true}) {
            cells.push_back({ranks, backend, sharding.strategy, sharding.name, sharding.hybrid ? group : 0, bf16});
          }
        }
      }
    }
  }
  return cells;
}

// Two of the choices of a cell.
using TwoChoices = std::pair<std::string, std::string>;

std::set<TwoChoices> pairs_of(const Cell& cell) {
  const std::vector<std::string> choices{std::to_string(cell.ranks), cell.backend, cell.strategy_name,
                                         cell.bf16 ? "bf16" : "fp32"};
  std::set<TwoChoices> pairs;
  for (size_t i = 0; i < choices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) pairs.emplace(choices[j], choices[i]);
  }
  return pairs;
}

struct Policy {
  UnitPolicy units;
  std::string name;
};

Policy random_policy(RandomSource& random) {
  const int64_t numel = random.between(1, 600);
  return random.among<Policy>({
      {units_automatic(), "automatic units"},
      {units_by_size(numel), fmt::format("units of at least {} elements", numel)},
      {units_of<Block>(), "units of blocks"},
      {units_of<Layer>(), "units of layers"},
      {units_of<torch::nn::LinearImpl, torch::nn::EmbeddingImpl, torch::nn::LSTMImpl>(), "units of linears and lstms"},
      {units_by([](const auto&...) { return true; }), "every module a unit"},
  });
}

// A model may have no such modules, or none with parameters, which is an error of `shard`.
UnitPolicy found_or_whole(const UnitPolicy& policy, const torch::nn::Module& module) try {
  preview_units(module, {.units = policy});
  return policy;
} catch (const Error&) {
  return one_unit();
}

MixedPrecision random_precision(RandomSource& random) {
  const std::optional<torch::ScalarType> bf16 = torch::kBFloat16;
  return {.param_dtype = bf16,
          .buffer_dtype = random.among<std::optional<torch::ScalarType>>({bf16, bf16, torch::kFloat32, std::nullopt})};
}

std::string describe(const MixedPrecision& precision) {
  const auto name = [](const auto& dtype) { return dtype ? toString(*dtype) : "kept"; };
  return fmt::format("parameters {}, buffers {}", name(precision.param_dtype), name(precision.buffer_dtype));
}

// How memory is saved. In the first case of each cell it is dealt out, so that each comes with every strategy, number
// of ranks and dtype, in shared memory and over Gloo; later it is drawn.
struct Savings {
  std::optional<Offload> offload = std::nullopt;
  std::optional<KeptResults> recomputed = std::nullopt;  // none: no block
  bool deferred = false;
};

Savings drawn_savings(RandomSource& random) {
  return {
      .offload = random.among<std::optional<Offload>>({std::nullopt, Offload::Optimizer, Offload::All}),
      .recomputed = random.among<std::optional<KeptResults>>({std::nullopt, KeptResults::None, KeptResults::Products}),
      .deferred = random.one_in(2)};
}

Savings first_savings(const Cell& cell, RandomSource& random) {
  const auto other = [&](auto one, auto another) { return cell.bf16 ? one : another; };
  if (cell.backend == "shm") return {.offload = Offload::All, .recomputed = KeptResults::None};
  if (cell.backend == kShmByCopies) return {.recomputed = KeptResults::Products, .deferred = true};
  if (cell.backend != "gloo" && cell.ranks > 1) return drawn_savings(random);
  return {.offload = other(Offload::Optimizer, Offload::All),
          .recomputed = other(KeptResults::Products, KeptResults::None),
          .deferred = true};
}

std::string describe(const Savings& savings) {
  const auto offload = savings.offload.value_or(Offload::Nothing);
  const char* files = offload == Offload::All ? "all" : offload == Offload::Optimizer ? "the moments" : "nothing";
  const char* blocks = !savings.recomputed                            ? "no block"
                       : *savings.recomputed == KeptResults::Products ? "each block but products"
                                                                      : "each block";
  return fmt::format("{}{} in files, {} recomputed", savings.deferred ? "deferred, " : "", files, blocks);
}

const std::vector<Cell>& cells() {
  static const std::vector<Cell> all = make_cells();
  return all;
}

}  // namespace

// A rank alone has no backend.
std::vector<std::string> backends_of(int ranks) {
  if (ranks == 1) return {"auto"};
  std::vector<std::string> backends{"shm", kShmByCopies, "gloo"};
  backends.emplace_back(ranks > 2 ? kSeveralHosts : kStaged);
  if (ranks == 3) backends.emplace_back(kStaged);
  if (ranks != 3) backends.emplace_back(kHostShards);
  return backends;
}

std::vector<uint64_t> pairwise_seeds(uint64_t draw) {
  std::vector<uint64_t> order(cells().size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(draw));
  std::set<TwoChoices> missing;
  for (const Cell& cell : cells()) missing.merge(pairs_of(cell));
  std::vector<uint64_t> seeds;
  while (!missing.empty()) {
    const auto gain = [&](uint64_t seed) {
      return std::ranges::count_if(pairs_of(cell_of(seed)),
                                   [&](const TwoChoices& two) { return missing.contains(two); });
    };
    const uint64_t best = *std::ranges::max_element(order, {}, gain);
    for (const TwoChoices& two : pairs_of(cell_of(best))) missing.erase(two);
    seeds.push_back(best);
  }
  return seeds;
}

const Cell& cell_of(uint64_t seed) { return cells()[seed % cells().size()]; }
uint64_t number_of_cases() { return cells().size(); }

bool RandomCase::keeps_buffers() const {
  const MixedPrecision& precision = options.mixed_precision;
  return precision.param_dtype && precision.buffer_dtype != precision.param_dtype;
}

RandomModel RandomCase::make(int rank) const {
  RandomModel made = make_random_model(seed, seed + 1000 * static_cast<uint64_t>(rank));
  // The oracle of such a case has no fp32 copy of what it converts, so both begin with values that bf16 has.
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : made.model.module->parameters()) {
    if (keeps_buffers() && parameter.defined()) parameter.copy_(parameter.to(torch::kBFloat16));
  }
  return made;
}

RandomModel RandomCase::make_on_ranks(int rank) const {
  RandomModel made = make(rank);
  for (const auto& module : made.model.module->modules()) {
    if (auto* block = module->as<Block>()) block->recomputed = recomputed;
  }
  return made;
}

RandomModel RandomCase::make_unsharded() const {
  RandomModel made = make(0);
  for (const auto& module : made.model.module->modules()) {
    if (!keeps_buffers() || module->named_buffers(/*recurse=*/false).contains("running_mean")) continue;
    for (const torch::Tensor& parameter : module->parameters(/*recurse=*/false)) {
      if (parameter.defined()) parameter.set_data(parameter.to(*options.mixed_precision.param_dtype));
    }
  }
  return made;
}

RandomCase make_random_case(uint64_t seed) {
  const Cell& cell = cell_of(seed);
  RandomSource random(~seed);  // other numbers than the model's
  const int64_t accumulation = random.between(1, 3);
  const bool clips = random.one_in(2);
  const Policy policy = random_policy(random);
  RandomCase drawn{.seed = seed};
  drawn.training = {.steps = 5,
                    .micro_batches = cell.ranks * accumulation,
                    .clip = clips ? 0.05 : 0,
                    .in_backward_every = clips ? 0 : 2};
  drawn.options.strategy = cell.strategy;
  drawn.options.shard_group_size = cell.group_size;
  drawn.options.units = found_or_whole(policy.units, *drawn.make(0).model.module);
  drawn.options.buffers = static_cast<int>(random.between(2, 4));
  drawn.options.prefetch = static_cast<int>(random.between(0, 2));
  drawn.options.full_on_each_host = cell.backend == kSeveralHosts && random.one_in(2);
  if (cell.bf16) drawn.options.mixed_precision = random_precision(random);
  const auto state = random.among<std::pair<StateDtype, const char*>>(
      {{StateDtype::Float32, "fp32"}, {StateDtype::BFloat16, "bf16"}, {StateDtype::Block8, "blocks of 8 bits"}});
  drawn.training.state_dtype = state.first;
  const Savings savings = seed < number_of_cases() ? first_savings(cell, random) : drawn_savings(random);
  drawn.offload = savings.offload;
  drawn.deferred = savings.deferred;
  if (savings.recomputed) drawn.recomputed = ActivationCheckpointOptions{.keep = *savings.recomputed};
  drawn.offloads_activations = random.one_in(2);
  if (!drawn.keeps_buffers()) drawn.training.param_dtype = drawn.options.mixed_precision.param_dtype;
  drawn.words = fmt::format(
      "{} (groups of {}), {} ranks, {}, {}, {} micro-batches each, clip {}, a step in {} in its backward, {} buffers, "
      "prefetch {}, full on each host {}, moments in {}, {}{}, {}; {}",
      cell.strategy_name, cell.group_size, cell.ranks, cell.backend, describe(drawn.options.mixed_precision),
      accumulation, drawn.training.clip, drawn.training.in_backward_every, drawn.options.buffers,
      drawn.options.prefetch, drawn.options.full_on_each_host, state.second, describe(savings),
      drawn.offloads_activations ? ", activations in files" : "", policy.name, drawn.make(0).words);
  return drawn;
}

}  // namespace fsdp::property
