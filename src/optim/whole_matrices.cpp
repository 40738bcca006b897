#include "optim/whole_matrices.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fsdp::optim {

namespace {

// The products of a Newton-Schulz step, up to a factor.
int64_t work_of(const engine::ShardedUnit& unit, size_t parameter) {
  const int64_t rows = unit.shapes[parameter].sizes[0], numel = unit.layout.numel_of(parameter);
  return numel * std::min(rows, numel / rows);
}

// The most elements of the matrices that one rank holds: messages are equally long on all.
int64_t largest_part(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces, int ranks) {
  int64_t largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t numel = 0;
    for (const MatrixPiece& one : pieces) numel += unit.layout.piece_of(one.parameter, rank).numel();
    largest = std::max(largest, numel);
  }
  return largest;
}

// `whole` holds the parameter's elements in their own memory order.
void apply(const MatrixFunction& function, const engine::Shape& shape, const torch::Tensor& whole) {
  const torch::Tensor tensor = whole.as_strided(shape.sizes, shape.strides);
  tensor.copy_(function(tensor.flatten(1).contiguous()).view(shape.sizes));
}

}  // namespace

void WholeMatrices::transform(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                              const MatrixFunction& function) {
  const std::vector<int> workers = choose_workers(unit, pieces);
  const std::vector<torch::Tensor> wholes = gather(unit, pieces, workers);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (wholes[i].defined()) apply(function, unit.shapes[pieces[i].parameter], wholes[i]);
  }
  for (int worker = 0; worker < group_.size(); ++worker) give_back(unit, pieces, workers, worker, wholes);
}

std::vector<int> WholeMatrices::choose_workers(const engine::ShardedUnit& unit,
                                               const std::vector<MatrixPiece>& pieces) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return work_of(unit, pieces[a].parameter) > work_of(unit, pieces[b].parameter);
  });
  std::vector<int64_t> work_here(group_.size());
  std::vector<int> ranks(group_.size()), workers(pieces.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  for (size_t i : order) {
    workers[i] = *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) {
      return std::pair(work_here[a], work_so_far_[a]) < std::pair(work_here[b], work_so_far_[b]);
    });
    work_here[workers[i]] += work_of(unit, pieces[i].parameter);
    work_so_far_[workers[i]] += work_of(unit, pieces[i].parameter);
  }
  return workers;
}

std::vector<torch::Tensor> WholeMatrices::gather(const engine::ShardedUnit& unit,
                                                 const std::vector<MatrixPiece>& pieces,
                                                 const std::vector<int>& workers) {
  torch::Tensor message = torch::zeros({largest_part(unit, pieces, group_.size())}, unit.shard.options());
  int64_t end = 0;
  for (const MatrixPiece& one : pieces) {
    message.slice(0, end, end + one.piece.numel()).copy_(one.piece);
    end += one.piece.numel();
  }
  const std::vector<torch::Tensor> parts = group_.all_gather(message);
  std::vector<torch::Tensor> wholes(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (workers[i] == group_.rank())
      wholes[i] = torch::empty({unit.layout.numel_of(pieces[i].parameter)}, unit.shard.options());
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    int64_t begin = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const int64_t numel = unit.layout.piece_of(pieces[i].parameter, rank).numel();
      const int64_t offset = unit.layout.piece_offset_of(pieces[i].parameter, rank);
      if (wholes[i].defined())
        wholes[i].slice(0, offset, offset + numel).copy_(parts[rank].slice(0, begin, begin + numel));
      begin += numel;
    }
  }
  return wholes;
}

void WholeMatrices::give_back(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                              const std::vector<int>& workers, int worker, const std::vector<torch::Tensor>& wholes) {
  std::vector<size_t> theirs;
  std::vector<torch::Tensor> results;
  int64_t numel = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (workers[i] != worker) continue;
    theirs.push_back(i);
    numel += unit.layout.numel_of(pieces[i].parameter);
    if (worker == group_.rank()) results.push_back(wholes[i]);
  }
  if (theirs.empty()) return;
  torch::Tensor values = worker == group_.rank() ? torch::cat(results) : torch::empty({numel}, unit.shard.options());
  group_.broadcast_(values, worker);
  int64_t begin = 0;
  for (size_t i : theirs) {
    torch::Tensor piece = pieces[i].piece;
    const int64_t offset = begin + unit.layout.piece_offset_of(pieces[i].parameter, group_.rank());
    piece.copy_(values.slice(0, offset, offset + piece.numel()));
    begin += unit.layout.numel_of(pieces[i].parameter);
  }
}

}  // namespace fsdp::optim
