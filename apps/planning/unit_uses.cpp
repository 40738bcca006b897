#include "planning/unit_uses.h"

#include <algorithm>
#include <set>

#include "models/block_costs.h"

namespace trainer {

namespace {

using Uses = std::vector<size_t>;  // of units, in the order of a pass

// The units of a stage. Embeddings are looked up in a forward alone: the backward does not read them.
struct StageUses {
  Uses forward, backward;
};

struct RankUses {
  std::vector<StageUses> of_stage;  // by stage
  size_t units = 0;
};

void add_use(Uses& uses, size_t unit) {
  if (uses.empty() || uses.back() != unit) uses.push_back(unit);
}

RankUses uses_of_rank(const PlannedMesh& mesh, const RunOptions& options, int pipeline_rank) {
  const std::vector<models::ModelBlock> blocks = models::blocks(options.model);
  const auto for_blocks = [&](auto use) {
    for (const int stage : mesh.stages_of(pipeline_rank)) {
      const int first = mesh.first_block(stage);
      for (int i = first; i < first + mesh.cuts[static_cast<size_t>(stage)]; ++i)
        use(static_cast<size_t>(stage), blocks[static_cast<size_t>(i)]);
    }
  };
  RankUses uses{.of_stage = std::vector<StageUses>(mesh.cuts.size())};
  for_blocks([&](size_t, const models::ModelBlock& block) { uses.units = block.is_layer ? uses.units : 1; });
  for_blocks([&](size_t stage, const models::ModelBlock& block) {
    const size_t unit = block.is_layer ? uses.units++ : 0;
    add_use(uses.of_stage[stage].forward, unit);
    const bool is_lookup = block.parameters.front().kind == models::ParameterKind::Embedding;
    if (!is_lookup) add_use(uses.of_stage[stage].backward, unit);
  });
  for (StageUses& stage : uses.of_stage) std::ranges::reverse(stage.backward);
  return uses;
}

// Full units of a rank that gathers them for their uses. The unit that was used longest ago leaves.
class FullUnits {
 public:
  FullUnits(size_t buffers, size_t units) : buffers_(buffers), gathers_(units, 0) {}

  void use(const Uses& uses) {
    for (const size_t unit : uses) {
      if (std::erase(full_, unit) == 0) ++gathers_[unit];
      full_.push_back(unit);
      if (full_.size() > buffers_) full_.erase(full_.begin());
    }
  }
  void use_all() {
    if (!full_.empty()) return;
    for (int64_t& times : gathers_) ++times;
    full_.push_back(0);
  }
  void backward_ends() { full_.clear(); }
  const std::vector<int64_t>& gathers() const { return gathers_; }

 private:
  size_t buffers_;
  std::vector<size_t> full_;  // in the order of their last uses
  std::vector<int64_t> gathers_;
};

}  // namespace

UnitTimes unit_times(const PlannedMesh& mesh, const RunOptions& options, int pipeline_rank) {
  const RankUses uses = uses_of_rank(mesh, options, pipeline_rank);
  std::vector<int64_t> reductions(uses.units, 0);
  FullUnits full(static_cast<size_t>(options.buffers), uses.units);
  const bool for_uses = options.strategy == "full-shard" || options.strategy == "hybrid-shard";
  for (const auto& action : mesh.schedule.ranks[static_cast<size_t>(pipeline_rank)]) {
    if (!fsdp::stages::is_pass(action.kind)) continue;
    const auto& [forward, backward] = uses.of_stage[static_cast<size_t>(action.stage)];
    if (fsdp::stages::adds_gradients(action.kind)) {
      for (const size_t unit : std::set<size_t>(forward.begin(), forward.end())) ++reductions[unit];
    }
    if (!fsdp::stages::reads_parameters(action.kind)) continue;
    const bool is_forward = action.kind == fsdp::stages::StageAction::Kind::Forward;
    for_uses ? full.use(is_forward ? forward : backward) : full.use_all();
    if (!is_forward) full.backward_ends();
  }
  std::vector<int64_t> gathers = full.gathers();
  if (options.strategy == "shard-optimizer") gathers.assign(uses.units, 1);
  if (options.strategy == "no-shard" || mesh.data == 1) gathers.assign(uses.units, 0);
  return {.gathers = std::move(gathers), .reductions = std::move(reductions)};
}

}  // namespace trainer
