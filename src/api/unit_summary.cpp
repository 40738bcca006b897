// Units as data: of a module that is not sharded, and of a sharded model.
#include "api/module_division.h"
#include "api/precision.h"
#include "engine/model.h"

namespace fsdp {

std::vector<UnitSummary> preview_units(const torch::nn::Module& module, const Options& options) {
  check_precision(options.mixed_precision);
  std::vector<NamedUnit> units = divide(module, options).units;
  drop_empty(units);
  std::vector<UnitSummary> summaries;
  for (const engine::UnitSpec& unit : divide_by_dtype(std::move(units), options.mixed_precision)) {
    UnitSummary& summary = summaries.emplace_back(UnitSummary{.name = unit.tensors.name});
    for (const auto& [name, parameter] : unit.tensors.parameters) {
      summary.parameters.push_back(name);
      summary.numel += parameter.numel();
    }
    summary.bytes = summary.numel * static_cast<int64_t>(c10::elementSize(unit.dtype));
  }
  return summaries;
}

std::vector<UnitSummary> ShardedModel::units() const {
  std::vector<UnitSummary> summaries;
  for (const auto& unit : model_->units()) {
    UnitSummary& summary = summaries.emplace_back(UnitSummary{.name = unit->name});
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      summary.parameters.push_back(unit->parameters[i].name());
      summary.numel += unit->layout.numel_of(i);
    }
    summary.bytes = summary.numel * static_cast<int64_t>(c10::elementSize(unit->dtype()));
  }
  return summaries;
}

}  // namespace fsdp
