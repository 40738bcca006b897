#include "property/mesh_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace fsdp::property {

namespace {

constexpr int kMostRanks = 8, kMostMicroBatches = 8, kMostStages = 9;
constexpr uint64_t kCasesOfACell = 3;

std::vector<MeshCell> make_mesh_cells() {
  std::vector<MeshCell> cells{{1, "auto"}};
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    for (const char* backend : {"shm", "gloo"}) cells.push_back({ranks, backend});
  }
  return cells;
}

int draw_divisor(RandomSource& random, int number) {
  std::vector<int> divisors;
  for (int one = 1; one <= number; ++one) {
    if (number % one == 0) divisors.push_back(one);
  }
  return random.among(divisors);
}

struct NamedSchedule {
  PipelineSchedule schedule;
  const char* name;
  bool of_several_stages;
};

void draw_stages(RandomSource& random, MeshLayout& layout) {
  using enum PipelineSchedule;
  const auto drawn = random.among<NamedSchedule>({{OneAtATime, "OneAtATime", true},
                                                  {AllForwardAllBackward, "AllForwardAllBackward", true},
                                                  {OneForwardOneBackward, "OneForwardOneBackward", false},
                                                  {Interleaved, "Interleaved", true},
                                                  {ZeroBubble, "ZeroBubble", true}});
  layout.pipeline_options.schedule = drawn.schedule;
  const int most = std::min<int>(3, kMostStages / layout.pipeline);
  if (drawn.of_several_stages) layout.pipeline_options.stages_per_rank = static_cast<int>(random.between(1, most));
  layout.words += fmt::format(", {} with {} stages per rank", drawn.name, layout.pipeline_options.stages_per_rank);
}

void draw_strategy(RandomSource& random, MeshLayout& layout) {
  const auto drawn = random.among<std::pair<Strategy, const char*>>({{Strategy::NoShard, "NoShard"},
                                                                     {Strategy::ShardOptimizer, "ShardOptimizer"},
                                                                     {Strategy::ShardGradOp, "ShardGradOp"},
                                                                     {Strategy::FullShard, "FullShard"}});
  layout.strategy = drawn.first;
  const int64_t numel = random.between(1, 3000);
  const auto units = random.among<std::pair<UnitPolicy, std::string>>(
      {{units_automatic(), "automatic units"},
       {one_unit(), "one unit"},
       {units_by_size(numel), fmt::format("units of at least {} elements", numel)}});
  layout.units = units.first;
  layout.shard_along_mesh = random.one_in(2);
  layout.words += fmt::format(", {}, {}", drawn.second, units.second);
}

// The tensor axis has a number of ranks that divides the parts.
void draw_mesh(RandomSource& random, MeshLayout& layout, int ranks, int parts, bool sharded) {
  layout.tensor = draw_divisor(random, std::gcd(ranks, parts));
  layout.pipeline = sharded ? draw_divisor(random, ranks / layout.tensor) : ranks / layout.tensor;
  layout.data = ranks / layout.tensor / layout.pipeline;
  std::vector<std::pair<std::string, int>> axes{
      {"data", layout.data}, {"pipeline", layout.pipeline}, {"tensor", layout.tensor}};
  for (size_t i = axes.size() - 1; i > 0; --i)
    std::swap(axes[i], axes[static_cast<size_t>(random.between(0, static_cast<int64_t>(i)))]);
  std::vector<std::string> words;
  for (const auto& [name, size] : axes) {
    const bool is_needed = size > 1 || (sharded && name == "data");
    if (!is_needed && random.one_in(2)) continue;
    layout.axes.push_back(name);
    words.push_back(fmt::format("{} {}", name, size));
  }
  if (layout.axes.empty()) layout.axes.push_back("pipeline");
  layout.words = fmt::format("on {}", fmt::join(words, " x "));
}

MeshLayout draw_layout(RandomSource& random, int ranks, int parts, bool sharded) {
  MeshLayout layout;
  draw_mesh(random, layout, ranks, parts, sharded);
  draw_stages(random, layout);
  if (sharded) draw_strategy(random, layout);
  layout.micro_batches = static_cast<int>(random.between(1, layout.data > 2 ? 3 : kMostMicroBatches));
  layout.words += fmt::format(", {} micro-batches", layout.micro_batches);
  return layout;
}

// Half of the cuts are left to the pipeline.
void draw_cuts(RandomSource& random, MeshLayout& layout, int blocks) {
  if (random.one_in(2)) return;
  std::vector<int>& cuts = layout.pipeline_options.cuts;
  const int stages = layout.pipeline * layout.pipeline_options.stages_per_rank;
  cuts.assign(static_cast<size_t>(stages), 1);
  for (int i = stages; i < blocks; ++i) ++cuts[static_cast<size_t>(random.between(0, stages - 1))];
  layout.words += fmt::format(", cuts {}", fmt::join(cuts, " "));
}

int stages_of(const MeshLayout& layout) { return layout.pipeline * layout.pipeline_options.stages_per_rank; }

}  // namespace

const std::vector<MeshCell>& mesh_cells() {
  static const std::vector<MeshCell> all = make_mesh_cells();
  return all;
}

const MeshCell& mesh_cell_of(uint64_t seed) { return mesh_cells()[seed % mesh_cells().size()]; }
uint64_t number_of_mesh_cases() { return kCasesOfACell * mesh_cells().size(); }

std::vector<uint64_t> one_of_each_cell(uint64_t draw) {
  std::vector<uint64_t> seeds(mesh_cells().size());
  std::iota(seeds.begin(), seeds.end(), draw % kCasesOfACell * mesh_cells().size());
  return seeds;
}

MeshCase make_mesh_case(uint64_t seed) {
  const MeshCell& cell = mesh_cell_of(seed);
  RandomSource random(~seed);
  MeshCase drawn{.seed = seed};
  const bool sharded = !random.one_in(5);
  if (random.one_in(2)) drawn.clip = 0.05;
  drawn.adamw = random.one_in(2);
  drawn.calls = random.one_in(3) ? 2 : 1;
  drawn.evaluates = random.one_in(3);
  const int parts = static_cast<int>(random.among<int64_t>({1, 2, 4, 8}));
  const int layouts = sharded && random.one_in(2) ? 2 : 1;
  int most_stages = 1;
  for (int i = 0; i < layouts; ++i) {
    drawn.layouts.push_back(draw_layout(random, cell.ranks, parts, sharded));
    most_stages = std::max(most_stages, stages_of(drawn.layouts.back()));
  }
  drawn.model = draw_mesh_model(random, parts, {.blocks = most_stages, .measured = drawn.clip > 0, .sharded = sharded});
  std::vector<std::string> words;
  for (MeshLayout& layout : drawn.layouts) {
    draw_cuts(random, layout, static_cast<int>(drawn.model.blocks.size()));
    words.push_back(layout.words);
  }
  drawn.words = fmt::format("{} ranks over {}, {}, clip {}, {} calls per step{}; {}; {}", cell.ranks, cell.backend,
                            drawn.adamw ? "AdamW" : "SGD", drawn.clip, drawn.calls,
                            drawn.evaluates ? ", evaluation" : "", fmt::join(words, "; then "), drawn.model.words());
  return drawn;
}

}  // namespace fsdp::property
