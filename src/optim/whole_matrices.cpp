#include "optim/whole_matrices.h"

#include <algorithm>
#include <utility>

namespace fsdp::optim {

namespace {

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

}  // namespace

void WholeMatrices::transform(const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
                              const std::vector<int64_t>& work, const MatricesFunction& function) {
  const std::vector<int> workers = shares_.assign(work);
  const std::vector<torch::Tensor> wholes = gather(unit, pieces, workers);
  std::vector<UnitMatrix> own;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!wholes[i].defined()) continue;
    const engine::Shape& shape = unit.shapes[pieces[i].parameter];
    own.push_back({pieces[i].parameter, wholes[i].as_strided(shape.sizes, shape.strides)});
  }
  function(own);
  for (int worker = 0; worker < group_.size(); ++worker) give_back(unit, pieces, workers, worker, wholes);
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
