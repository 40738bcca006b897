#include "engine/full_scope.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/names.h"
#include "engine/whole_unit.h"

namespace fsdp::engine {

FullScope::FullScope(std::shared_ptr<Model> model, FullParametersOptions options)
    : model_(std::move(model)), parts_(model_->parts_), options_(std::move(options)), full_(parts_.units.size()) {
  const std::lock_guard lock(parts_.mutex);
  parts_.check(schedule::Call::OpenFullParameters, "full_parameters");
  check_patterns();
  make_full();
  parts_.driver.open_full_scope();
  parts_.full_scope = this;
}

FullScope::~FullScope() {
  if (!model_) return;
  const std::lock_guard lock(parts_.mutex);
  end();
}

bool FullScope::holds(const ShardedUnit& unit) const {
  return options_.units.empty() || matches_any(options_.units, unit.name);
}

void FullScope::check_patterns() const {
  for (const std::string& pattern : options_.units) {
    FSDP_CHECK(std::any_of(parts_.units.begin(), parts_.units.end(),
                           [&](const auto& unit) { return matches(pattern, unit->name); }),
               "full_parameters: the pattern '{}' matches no unit; the first one is named '{}'", pattern,
               parts_.units.empty() ? "" : parts_.units[0]->name);
  }
}

void FullScope::make_full() {
  parts_.driver.release_all();
  torch::NoGradGuard no_grad;
  const bool here = !options_.rank0_only || parts_.group->rank() == 0;
  parts_.driver.guarded([&] {
    for (size_t id = 0; id < full_.size(); ++id) {
      ShardedUnit& unit = *parts_.units[id];
      if (!holds(unit)) continue;
      torch::Tensor full = gather_whole(unit);
      if (!here) continue;
      full_[id] = std::move(full);
      unit.bind(full_[id].data_ptr());
      unit.allow_access();
    }
  });
}

void FullScope::check_use(std::span<const int> units, std::optional<int> written, std::string_view operation) const {
  if (written) {
    const std::string& unit = parts_.units[*written]->name;
    FSDP_CHECK_UNIT(options_.write_back, unit,
                    "{} writes a parameter inside full_parameters({{.write_back = false}}), where the write would be "
                    "lost. Leave write_back on.",
                    operation);
    FSDP_CHECK_UNIT(operation != "aten::set_", unit,
                    "{} replaces a parameter's memory inside full_parameters(), whose end would not see it; "
                    "torch::load of a module does so. Load into another module, and copy_ its parameters into these.",
                    operation);
  }
  for (int unit : units) {
    FSDP_CHECK_UNIT(full_[unit].defined(), parts_.units[unit]->name,
                    "{} uses a unit that the open full_parameters scope leaves sharded{}. Close the scope first, or "
                    "open it for this unit.",
                    operation, options_.rank0_only ? " on every rank but 0" : "");
  }
}

int64_t FullScope::bytes() const {
  int64_t bytes = 0;
  for (const torch::Tensor& full : full_) {
    if (full.defined()) bytes += static_cast<int64_t>(full.nbytes());
  }
  return bytes;
}

void FullScope::close() {
  if (!model_) return;
  const std::lock_guard lock(parts_.mutex);
  end();
  parts_.check_parameters("full_parameters");
  if (options_.write_back) write_back();
  model_.reset();
}

void FullScope::end() {
  parts_.full_scope = nullptr;
  parts_.driver.close_full_scope();
  for (auto& unit : parts_.units) unit->unbind();
}

void FullScope::write_back() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  parts_.check(schedule::Call::WriteState, "full_parameters");
  parts_.driver.begin_write();
  for (size_t id = 0; id < full_.size(); ++id) {
    ShardedUnit& unit = *parts_.units[id];
    if (!holds(unit)) continue;
    if (options_.rank0_only) take_from_rank0(id);
    write_changes(unit, full_[id], parts_.group->rank());
  }
  parts_.driver.publish();
}

void FullScope::take_from_rank0(size_t id) {
  const ShardedUnit& unit = *parts_.units[id];
  if (!full_[id].defined())
    full_[id] = torch::empty({unit.layout.full_numel()}, torch::dtype(unit.dtype()).device(unit.device()));
  parts_.driver.guarded([&] { parts_.group->broadcast_(full_[id], 0); });
}

}  // namespace fsdp::engine
