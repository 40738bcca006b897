// Matrices of which each rank of an axis holds a part: whole on one of the ranks, and in parts again.
//
// Each matrix falls to one rank. The others send it their parts, it transforms the matrix, and sends each rank its part
// of the result. All ranks together receive less than 2 M elements, where M is the number of all matrices' elements.
// For that time a rank holds the whole matrices that it works on, and the messages. The worker of a matrix does not
// show in its bits. Collectives; one thread at a time.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "engine/other_parts.h"
#include "optim/work_shares.h"

namespace fsdp::optim {

// From [rows, columns], contiguous, to the same shape. A parameter of more dimensions is a matrix of its first one by
// all others.
using MatrixFunction = std::function<torch::Tensor(const torch::Tensor& matrix)>;

// Overwrites `values` with the function's result for them.
void apply(const MatrixFunction& function, const torch::Tensor& values);

struct DividedMatrix {
  const engine::AxisDivision* division = nullptr;
  torch::Tensor part;  // this rank's, in its shape; overwritten by this rank's part of the result
};

class DividedMatrices {
 public:
  explicit DividedMatrices(engine::DividingAxis& axis) : axis_(axis), shares_(axis.size()) {}

  // The same matrices on every rank. If there are none, it is no collective.
  void transform(const std::vector<DividedMatrix>& matrices, const MatrixFunction& function);

 private:
  // The matrices that this rank works on; the others are undefined.
  std::vector<torch::Tensor> gather(const std::vector<DividedMatrix>& matrices, const std::vector<int>& workers);
  void give_back(const std::vector<DividedMatrix>& matrices, const std::vector<int>& workers,
                 const std::vector<torch::Tensor>& wholes);
  // `to` has the flat tensors that go to each rank. Returns one flat tensor from each rank, of `numels` elements.
  std::vector<torch::Tensor> exchange(const std::vector<std::vector<torch::Tensor>>& to,
                                      const std::vector<int64_t>& numels, const torch::TensorOptions& options);

  engine::DividingAxis& axis_;
  WorkShares shares_;
};

}  // namespace fsdp::optim
