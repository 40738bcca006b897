// The scope in which the module's parameters are whole, in memory of their own.
#include <algorithm>

#include "base/error.h"
#include "base/names.h"
#include "engine/full_scope.h"
#include "engine/model.h"

namespace fsdp::engine {

namespace {

bool is_among(const std::string& unit, const std::vector<std::string>& patterns) {
  return patterns.empty() || matches_any(patterns, unit);
}

// Where full parameters have fewer bits than the shard, what was not written keeps all of the shard's.
void write_changes(torch::Tensor& shard, const torch::Tensor& full) {
  if (full.scalar_type() == shard.scalar_type()) {
    shard.copy_(full);
    return;
  }
  const torch::Tensor before = shard.to(full.scalar_type());
  const torch::Tensor same = before.view(torch::kInt16) == full.view(torch::kInt16);
  shard.copy_(torch::where(same, shard, full.to(torch::kFloat32)));
}

}  // namespace

void Model::open_full(FullParametersOptions options) {
  FSDP_CHECK(!full_, "full_parameters() is open already. Close the first scope before opening another.");
  for (const std::string& pattern : options.units) {
    FSDP_CHECK(
        std::any_of(units_.begin(), units_.end(), [&](const auto& unit) { return matches(pattern, unit->name); }),
        "full_parameters: the pattern '{}' matches no unit; the first one is named '{}'", pattern,
        units_.empty() ? "" : units_[0]->name);
  }
  check_settled("full_parameters");
  std::lock_guard lock(mutex_);
  release_all();
  torch::NoGradGuard no_grad;
  const bool here = !options.rank0_only || group_->rank() == 0;
  guarded([&] {
    for (auto& unit : units_) {
      if (!is_among(unit->name, options.units)) continue;
      torch::Tensor full = gather_alone(*unit);
      if (!here) continue;
      unit->full = std::move(full);
      unit->storage->bind(unit->full.data_ptr());
      unit->storage->allow_access();
    }
  });
  full_ = std::move(options);
}

// The unit, whole, in memory of its own.
torch::Tensor Model::gather_alone(Unit& unit) {
  torch::Tensor full = torch::empty({unit.layout.full_numel()}, on_device(unit.dtype()));
  unit.collectives->begin_gather(full, collectives::Order::Common);
  void* bytes = unit.collectives->wait_gather();
  if (bytes != full.data_ptr()) full.copy_(torch::from_blob(bytes, full.sizes(), full.options()));
  unit.collectives->release();
  return full;
}

void Model::use_full(std::span<const int> units, std::optional<int> written, const char* operation) const {
  FSDP_CHECK_UNIT(
      !written || full_->write_back, units_[*written]->name,
      "{} writes a parameter inside full_parameters({{.write_back = false}}), where the write would be lost. "
      "Leave write_back on.",
      operation);
  for (int unit : units) {
    FSDP_CHECK_UNIT(units_[unit]->full.defined(), units_[unit]->name,
                    "{} uses a unit that the open full_parameters scope leaves sharded{}. Close the scope first, or "
                    "open it for this unit.",
                    operation, full_->rank0_only ? " on every rank but 0" : "");
  }
}

void Model::check_no_full_scope(std::string_view what) const {
  FSDP_CHECK(!full_,
             "{} came inside full_parameters(), which writes its own values back at its end. Close the scope first.",
             what);
}

void Model::check_settled(std::string_view what) const {
  std::lock_guard lock(mutex_);
  check_no_full_scope(what);
  check_no_step_begun(what);
}

void Model::close_full() {
  torch::NoGradGuard no_grad;
  FullParametersOptions options;
  {
    std::lock_guard lock(mutex_);
    if (!full_) return;
    options = std::move(*full_);
    full_.reset();
    for (auto& unit : units_) unit->storage->unbind();
  }
  check_parameters("full_parameters");
  if (options.write_back) {
    begin_write();
    for (auto& unit : units_) {
      if (!is_among(unit->name, options.units)) continue;
      if (options.rank0_only) take_from_rank0(*unit);
      const layout::Range own = unit->layout.shard_of(group_->rank());
      write_changes(unit->shard, unit->full.slice(0, own.begin, own.end));
    }
    publish();
  }
  for (auto& unit : units_) unit->full = torch::Tensor();
}

void Model::take_from_rank0(Unit& unit) {
  if (!unit.full.defined()) unit.full = torch::empty({unit.layout.full_numel()}, on_device(unit.dtype()));
  guarded([&] { group_->broadcast_(unit.full, 0); });
}

}  // namespace fsdp::engine
