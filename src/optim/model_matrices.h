// All matrices of a sharded model: out of the pieces of its own ranks (whole_matrices.h), and out of the parts of the
// axes that divide its layers (divided_matrices.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model.h"
#include "optim/divided_matrices.h"
#include "optim/whole_matrices.h"

namespace fsdp::optim {

class ModelMatrices {
 public:
  // For the parameters at the places `matrices` of the model. Throws Error, on every rank of an axis, if its ranks have
  // other matrices or units, or together not all of one. A collective of each axis. The model outlives it.
  ModelMatrices(engine::Model& model, const std::vector<size_t>& matrices);

  // The shape of a parameter of the model, also where this model has a part alone.
  const std::vector<int64_t>& whole_shape(size_t parameter) const;
  // Applies `function` to some whole matrices of a unit, the same ones on every rank. A collective of the model and of
  // the axes, under the model's lock.
  void transform(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                 const MatrixFunction& function);

 private:
  void transform_own(const engine::ShardedUnit& unit, const std::vector<UnitMatrix>& matrices,
                     const MatrixFunction& function);
  bool divided(size_t parameter) const;

  engine::Model& model_;
  WholeMatrices wholes_;
  std::vector<DividedMatrices> of_axes_;  // as the model's axes
};

}  // namespace fsdp::optim
