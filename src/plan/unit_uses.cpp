#include "plan/unit_uses.h"

#include <algorithm>
#include <list>
#include <optional>

#include "base/error.h"
#include "plan/checks.h"

namespace fsdp::plan {

namespace {

using Kind = stages::StageAction::Kind;

// Full units of a rank that gathers them for their uses. The unit that was used longest ago leaves.
class FullUnits {
 public:
  FullUnits(std::vector<UnitUses>& units, int64_t buffers)
      : units_(units), buffers_(static_cast<size_t>(buffers)), places_(units.size()) {}

  void use(const std::vector<size_t>& uses) {
    for (const size_t unit : uses) use(unit);
  }
  // Until the backward ends.
  void use_all() {
    if (!in_order_.empty()) return;
    for (size_t unit = 0; unit < units_.size(); ++unit) gather(unit);
  }
  void backward_ends() {
    while (!in_order_.empty()) release_first();
  }

 private:
  using Order = std::list<size_t>;

  void use(size_t unit) {
    if (places_[unit]) {
      in_order_.splice(in_order_.end(), in_order_, *places_[unit]);
    } else {
      gather(unit);
      if (in_order_.size() > buffers_) release_first();
    }
  }
  void gather(size_t unit) {
    ++units_[unit].gathers;
    places_[unit] = in_order_.insert(in_order_.end(), unit);
  }
  void release_first() {
    places_[in_order_.front()].reset();
    in_order_.pop_front();
  }

  std::vector<UnitUses>& units_;
  size_t buffers_;
  Order in_order_;                                      // of their last uses
  std::vector<std::optional<Order::iterator>> places_;  // by unit; none: it is not full
};

std::vector<size_t> distinct(std::vector<size_t> uses) {
  std::ranges::sort(uses);
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  return uses;
}

}  // namespace

std::vector<UnitUses> unit_uses(const Mesh& mesh, const RankUnits& units, const Sharding& sharding,
                                int64_t pipeline_rank) {
  check_sharding(sharding);
  std::vector<UnitUses> uses(units.units.size());
  FullUnits full(uses, sharding.buffers);
  std::vector<std::vector<size_t>> reduced;
  for (const StageUses& stage : units.of_stage) reduced.push_back(distinct(stage.forward));
  for (const auto& action : mesh.schedule.ranks[static_cast<size_t>(pipeline_rank)]) {
    if (!stages::is_pass(action.kind)) continue;
    const auto stage = static_cast<size_t>(action.stage);
    if (stages::adds_gradients(action.kind)) {
      for (const size_t unit : reduced[stage]) ++uses[unit].reductions;
    }
    if (sharding.full_for_the_step || !stages::reads_parameters(action.kind)) continue;
    const bool is_forward = action.kind == Kind::Forward;
    const StageUses& of_stage = units.of_stage[stage];
    sharding.shares_buffers ? full.use(is_forward ? of_stage.forward : of_stage.backward) : full.use_all();
    if (!is_forward) full.backward_ends();
  }
  for (UnitUses& unit : uses) {
    if (sharding.full_for_the_step) unit.gathers = 1;
    if (sharding.group == 1) unit.gathers = 0;
  }
  return uses;
}

std::vector<UnitUses> unit_uses(const std::vector<Block>& blocks, const Sharding& sharding, int64_t micro_batches) {
  FSDP_CHECK(micro_batches >= 1 && micro_batches <= stages::kMostNumber,
             "plan: found {} micro-batches, expected 1 to {}.", micro_batches, stages::kMostNumber);
  const Mesh mesh = mesh_of_one_rank(blocks);
  std::vector<UnitUses> uses = unit_uses(mesh, units_of_rank(mesh, blocks, 0), sharding, 0);
  for (UnitUses& unit : uses) {
    unit.gathers *= sharding.full_for_the_step ? 1 : micro_batches;
    unit.reductions *= micro_batches;
  }
  return uses;
}

std::vector<UnitUses> unit_uses(int64_t units, const Sharding& sharding, int64_t micro_batches) {
  FSDP_CHECK(units >= 1 && units <= stages::kMostNumber, "plan: found {} units, expected 1 to {}.", units,
             stages::kMostNumber);
  std::vector<Block> blocks(static_cast<size_t>(units) - 1, {.parameters = {{.numel = 1}}, .is_layer = true});
  const Block at_an_end{.parameters = {{.numel = 1}}};
  blocks.insert(blocks.begin(), at_an_end);
  blocks.front().is_lookup = units > 1;
  if (units > 1) blocks.push_back(at_an_end);
  return unit_uses(blocks, sharding, micro_batches);
}

}  // namespace fsdp::plan
