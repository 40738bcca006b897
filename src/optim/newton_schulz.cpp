#include "optim/newton_schulz.h"

#include <algorithm>

namespace fsdp::optim {

namespace {

constexpr int kIterations = 5;
constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;
constexpr double kSmallestNorm = 1e-7;  // keeps a zero matrix from becoming NaN

}  // namespace

int64_t newton_schulz_work(c10::IntArrayRef shape) {
  const int64_t numel = c10::multiply_integers(shape);
  return numel * std::min(shape[0], numel / shape[0]);
}

torch::Tensor orthogonalized(const torch::Tensor& matrix, torch::ScalarType dtype) {
  // The Gram matrix is formed along the shorter side: fewer products.
  const bool tall = matrix.size(0) > matrix.size(1);
  torch::Tensor x = tall ? matrix.t() : matrix;
  // The iteration converges for singular values up to 1, which the Frobenius norm bounds.
  x = (x / (x.norm() + kSmallestNorm)).to(dtype);
  for (int i = 0; i < kIterations; ++i) {
    const torch::Tensor gram = torch::mm(x, x.t());
    x = torch::addmm(x, torch::addmm(gram, gram, gram, kCubic, kQuintic), x, kLinear);
  }
  x = x.to(torch::kFloat32);
  return tall ? x.t() : x;
}

}  // namespace fsdp::optim
