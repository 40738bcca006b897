#include "optim/divided_matrices.h"

#include <utility>

#include "optim/newton_schulz.h"

namespace fsdp::optim {

namespace {

using engine::AxisDivision;
using torch::Tensor;

std::vector<int64_t> part_shape(const AxisDivision& division, int rank) {
  std::vector<int64_t> shape = division.shape;
  int64_t& size = shape[static_cast<size_t>(division.dim)] = 0;
  for (const layout::Range& range : division.ranges[static_cast<size_t>(rank)]) size += range.numel();
  return shape;
}

// The ranges of a rank's part in the whole, and in the part: two views of the same shape.
std::vector<std::pair<Tensor, Tensor>> in_whole_and_part(const AxisDivision& division, int rank, const Tensor& whole,
                                                         const Tensor& part) {
  std::vector<std::pair<Tensor, Tensor>> views;
  int64_t own = 0;
  for (const layout::Range& range : division.ranges[static_cast<size_t>(rank)]) {
    views.emplace_back(whole.narrow(division.dim, range.begin, range.numel()),
                       part.narrow(division.dim, own, range.numel()));
    own += range.numel();
  }
  return views;
}

// std::vector<Tensor> of these shapes, one after the other in a flat one.
class Unpacking {
 public:
  explicit Unpacking(Tensor flat) : flat_(std::move(flat)) {}
  Tensor next(const std::vector<int64_t>& shape) {
    const int64_t numel = c10::multiply_integers(shape);
    return flat_.narrow(0, std::exchange(begin_, begin_ + numel), numel).view(shape);
  }

 private:
  Tensor flat_;
  int64_t begin_ = 0;
};

}  // namespace

void apply(const MatrixFunction& function, const Tensor& values) {
  values.copy_(function(values.flatten(1).contiguous()).view(values.sizes()));
}

void DividedMatrices::transform(const std::vector<DividedMatrix>& matrices, const MatrixFunction& function) {
  if (matrices.empty()) return;
  std::vector<int64_t> work;
  for (const DividedMatrix& one : matrices) work.push_back(newton_schulz_work(one.division->shape));
  const std::vector<int> workers = shares_.assign(work);
  const std::vector<Tensor> wholes = gather(matrices, workers);
  for (const Tensor& whole : wholes) {
    if (whole.defined()) apply(function, whole);
  }
  give_back(matrices, workers, wholes);
}

std::vector<Tensor> DividedMatrices::gather(const std::vector<DividedMatrix>& matrices,
                                            const std::vector<int>& workers) {
  const auto ranks = static_cast<size_t>(axis_.size());
  const torch::TensorOptions options = matrices[0].part.options();
  std::vector<std::vector<Tensor>> to(ranks);
  std::vector<int64_t> numels(ranks);
  std::vector<Tensor> wholes(matrices.size());
  for (size_t i = 0; i < matrices.size(); ++i) {
    to[static_cast<size_t>(workers[i])].push_back(matrices[i].part.flatten());
    if (workers[i] != axis_.rank()) continue;
    wholes[i] = torch::empty(matrices[i].division->shape, options);
    for (size_t rank = 0; rank < ranks; ++rank)
      numels[rank] += c10::multiply_integers(part_shape(*matrices[i].division, static_cast<int>(rank)));
  }
  const std::vector<Tensor> parts = exchange(to, numels, options);
  for (int rank = 0; rank < axis_.size(); ++rank) {
    Unpacking of_rank(parts[static_cast<size_t>(rank)]);
    for (size_t i = 0; i < matrices.size(); ++i) {
      if (!wholes[i].defined()) continue;
      const AxisDivision& division = *matrices[i].division;
      for (auto& [whole, part] : in_whole_and_part(division, rank, wholes[i], of_rank.next(part_shape(division, rank))))
        whole.copy_(part);
    }
  }
  return wholes;
}

void DividedMatrices::give_back(const std::vector<DividedMatrix>& matrices, const std::vector<int>& workers,
                                const std::vector<Tensor>& wholes) {
  const auto ranks = static_cast<size_t>(axis_.size());
  const torch::TensorOptions options = matrices[0].part.options();
  std::vector<std::vector<Tensor>> to(ranks);
  std::vector<int64_t> numels(ranks);
  for (size_t i = 0; i < matrices.size(); ++i) {
    numels[static_cast<size_t>(workers[i])] += matrices[i].part.numel();
    if (!wholes[i].defined()) continue;
    for (int rank = 0; rank < axis_.size(); ++rank) {
      const AxisDivision& division = *matrices[i].division;
      const Tensor part = torch::empty(part_shape(division, rank), options);
      for (auto& [of_whole, of_part] : in_whole_and_part(division, rank, wholes[i], part)) of_part.copy_(of_whole);
      to[static_cast<size_t>(rank)].push_back(part.flatten());
    }
  }
  const std::vector<Tensor> parts = exchange(to, numels, options);
  for (int worker = 0; worker < axis_.size(); ++worker) {
    Unpacking of_worker(parts[static_cast<size_t>(worker)]);
    for (size_t i = 0; i < matrices.size(); ++i) {
      if (workers[i] == worker) matrices[i].part.copy_(of_worker.next(matrices[i].part.sizes().vec()));
    }
  }
}

std::vector<Tensor> DividedMatrices::exchange(const std::vector<std::vector<Tensor>>& to,
                                              const std::vector<int64_t>& numels, const torch::TensorOptions& options) {
  std::vector<Tensor> sent, received;
  for (size_t rank = 0; rank < to.size(); ++rank) {
    sent.push_back(to[rank].empty() ? torch::empty({0}, options) : torch::cat(to[rank]));
    const bool is_own = static_cast<int>(rank) == axis_.rank();
    received.push_back(is_own ? sent.back() : torch::empty({numels[rank]}, options));
  }
  axis_.exchange(sent, received);
  return received;
}

}  // namespace fsdp::optim
