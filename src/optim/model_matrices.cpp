#include "optim/model_matrices.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/fnv1a.h"
#include "optim/newton_schulz.h"

namespace fsdp::optim {

namespace {

// Ranges that leave no element out.
void check_complete(const std::string& name, const engine::AxisDivision& division) {
  std::vector<layout::Range> all;
  for (const auto& of_rank : division.ranges) all.insert(all.end(), of_rank.begin(), of_rank.end());
  std::ranges::sort(all, {}, &layout::Range::begin);
  int64_t end = 0;
  for (const layout::Range& range : all) {
    if (range.begin > end) break;
    end = std::max(end, range.end);
  }
  const int64_t size = division.shape[static_cast<size_t>(division.dim)];
  FSDP_CHECK(end == size,
             "Muon: the ranks of a tensor axis hold {} from 0 to {} of dimension {} of shape [{}], expected all {} "
             "together. Correct divisions() of its module, or add its name to options.not_matrices.",
             name, end, division.dim, fmt::join(division.shape, ", "), size);
}

// The matrices that the axis divides, by unit, as a hash.
int64_t hash_of_matrices(const engine::Model& model, const engine::DividingAxis& axis,
                         const std::vector<size_t>& matrices) {
  Fnv1a hash;
  for (size_t i : matrices) {
    const engine::AxisDivision* division = model.division_of(i, axis);
    if (division == nullptr) continue;
    const ShardedParameter& parameter = model.parameters()[i];
    check_complete(parameter.name, *division);
    const auto holds = [&](const auto& unit) { return i < unit->first_piece + unit->parameters.size(); };
    hash.add(fmt::format("{} of unit {}: {}\n", parameter.name, (*std::ranges::find_if(model.units(), holds))->name,
                         fmt::join(division->shape, " ")));
  }
  return hash.word();
}

void check_same_matrices(engine::Model& model, engine::DividingAxis& axis, const std::vector<size_t>& matrices) {
  const int64_t own = hash_of_matrices(model, axis, matrices);
  const auto all = model.gather_over(axis, torch::tensor({own}, torch::kInt64));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    FSDP_CHECK(all[rank].item<int64_t>() == all[0].item<int64_t>(),
               "Muon: ranks 0 and {} of a tensor axis have other divided matrices, or divide the model into other "
               "units, expected the same. Give all ranks the same model, unit policy and MuonOptions.",
               rank);
  }
}

}  // namespace

ModelMatrices::ModelMatrices(engine::Model& model, const std::vector<size_t>& matrices)
    : model_(model), wholes_(model.group()) {
  for (const auto& axis : model.axes()) {
    check_same_matrices(model, *axis, matrices);
    of_axes_.emplace_back(*axis);
  }
}

const std::vector<int64_t>& ModelMatrices::whole_shape(size_t parameter) const {
  for (const auto& axis : model_.axes()) {
    if (const auto* division = model_.division_of(parameter, *axis)) return division->shape;
  }
  return model_.parameters()[parameter].shape;
}

bool ModelMatrices::divided(size_t parameter) const {
  return std::ranges::any_of(model_.axes(),
                             [&](const auto& axis) { return model_.division_of(parameter, *axis) != nullptr; });
}

void ModelMatrices::transform(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                              const MatrixFunction& function) {
  std::vector<int64_t> work;
  for (const MatrixPiece& one : pieces)
    work.push_back(newton_schulz_work(whole_shape(unit.first_piece + one.parameter)));
  wholes_.transform(unit, pieces, work,
                    [&](const std::vector<UnitMatrix>& own) { transform_own(unit, own, function); });
}

// All ranks of an axis have the same place in their models' groups, so they have parts of the same matrices here.
void ModelMatrices::transform_own(const engine::ShardedUnit& unit, const std::vector<UnitMatrix>& matrices,
                                  const MatrixFunction& function) {
  for (size_t axis = 0; axis < of_axes_.size(); ++axis) {
    std::vector<DividedMatrix> parts;
    for (const UnitMatrix& one : matrices) {
      const auto* division = model_.division_of(unit.first_piece + one.parameter, *model_.axes()[axis]);
      if (division != nullptr) parts.push_back({division, one.values});
    }
    of_axes_[axis].transform(parts, function);
  }
  for (const UnitMatrix& one : matrices) {
    if (!divided(unit.first_piece + one.parameter)) apply(function, one.values);
  }
}

}  // namespace fsdp::optim
