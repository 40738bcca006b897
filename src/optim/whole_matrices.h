// Whole matrices out of the pieces that the ranks hold, and pieces out of whole matrices, for optimizers that work on
// matrices.
//
// One unit at a time: the ranks give each other their pieces (one all-gather), each rank transforms the matrices that
// fall to it, and gives the results to all (one broadcast per rank). With M elements in the unit's matrices and N
// ranks, each rank receives about M·(N-1)/N elements for the gather and as many for the results. If the pieces are
// uneven, the gather carries up to N times the largest rank's share instead of M. A rank holds those elements until it
// has put together its own matrices, about M/N; then these and one rank's results at a time.
//
// Whose a matrix is does not show in its bits. Collectives; one thread at a time.
#pragma once

#include <functional>
#include <vector>

#include "collectives/group.h"
#include "engine/sharded_unit.h"
#include "optim/work_shares.h"

namespace fsdp::optim {

// This rank's part of a tensor that is shaped and divided as a parameter of the unit.
struct MatrixPiece {
  size_t parameter = 0;  // within the unit
  torch::Tensor piece;   // 1-D, maybe empty; overwritten by this rank's part of the result
};

// A matrix that this rank works on, in the shape and with the strides of the unit's parameter; to be overwritten by the
// result.
struct UnitMatrix {
  size_t parameter = 0;  // within the unit
  torch::Tensor values;
};
// Called once, also for none.
using MatricesFunction = std::function<void(const std::vector<UnitMatrix>& matrices)>;

class WholeMatrices {
 public:
  explicit WholeMatrices(collectives::Group& group) : group_(group), shares_(group.size()) {}

  // Applies `function` to some matrices of a unit, the same ones on every rank. `work[i]` is that of pieces[i]
  // (newton_schulz_work).
  void transform(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                 const std::vector<int64_t>& work, const MatricesFunction& function);

 private:
  // The matrices that this rank works on, flat in their own memory order; the others are undefined.
  std::vector<torch::Tensor> gather(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                                    const std::vector<int>& workers);
  void give_back(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                 const std::vector<int>& workers, int worker, const std::vector<torch::Tensor>& wholes);

  collectives::Group& group_;
  WorkShares shares_;
};

}  // namespace fsdp::optim
