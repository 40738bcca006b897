#include "plan/activations.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "plan/piece_facts.h"

namespace fsdp::plan {

namespace {

using Numbers = std::set<size_t>;

void add_all(Numbers& numbers, const std::vector<size_t>& more) { numbers.insert(more.begin(), more.end()); }

// Inputs, and results of its own.
Numbers kept_by_autograd(const Graph& piece) {
  Numbers kept;
  for (const Operator& each : piece.operators) add_all(kept, each.keeps);
  return kept;
}

bool keeps_result(const Operator& each) {
  return std::ranges::any_of(
      each.writes, [&](size_t written) { return std::ranges::find(each.keeps, written) != each.keeps.end(); });
}

// The second run ends with the last tensor that autograd keeps. It has no use for later results.
Numbers kept_products(const Graph& piece) {
  Numbers kept;
  bool is_needed = false;  // autograd keeps a tensor behind this operator
  for (auto each = piece.operators.rbegin(); each != piece.operators.rend(); ++each) {
    const bool is_product = each->kind == OperatorKind::Product || each->kind == OperatorKind::Attention;
    if (is_product && !each->draws_random && (is_needed || keeps_result(*each))) add_all(kept, each->writes);
    is_needed = is_needed || !each->keeps.empty();
  }
  return kept;
}

std::vector<size_t> listed(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

// Tensors that all layers share count once, so they are apart.
struct PieceBytes {
  int64_t own = 0, common = 0;
};

PieceBytes piece_bytes(const Graph& piece, const std::vector<size_t>& tensors) {
  PieceBytes sum;
  for (const size_t number : tensors) {
    const GraphTensor& tensor = piece.tensors[number];
    (tensor.is_common ? sum.common : sum.own) += tensor.bytes;
  }
  return sum;
}

// A piece with one choice of its checkpoint.
struct PieceSizes {
  explicit PieceSizes(const Piece& piece)
      : kept(piece_bytes(*piece.graph, kept_tensors(*piece.graph, piece.keep))),
        backward(piece_bytes(*piece.graph, backward_tensors(*piece.graph, piece.keep))) {}

  PieceBytes kept, backward;
};

// The tensors of a piece that offload moves to files, and the others that it keeps.
struct OffloadedPiece {
  OffloadedPiece(const Piece& of, int64_t least_bytes) {
    const Graph& graph = *of.graph;
    const std::vector<size_t> stored = offloaded_tensors(graph, of.keep, least_bytes);
    std::vector<size_t> staying;
    std::ranges::set_difference(kept_tensors(graph, of.keep), stored, std::back_inserter(staying));
    in_files = piece_bytes(graph, stored);
    in_memory = piece_bytes(graph, staying);
    if (of.keep == KeptResults::All) return;
    Numbers again = kept_by_autograd(graph);  // copies of inputs from files among them
    add_all(again, staying);
    second_run = piece_bytes(graph, listed(again));
  }

  PieceBytes in_files, in_memory;
  PieceBytes second_run;  // in memory
};

PieceBytes with_piece(const PieceBytes& before, const PieceBytes& piece) {
  return {.own = before.own + piece.own, .common = std::max(before.common, piece.common)};
}

int64_t total(const PieceBytes& bytes) { return bytes.own + bytes.common; }

}  // namespace

std::vector<size_t> kept_tensors(const Graph& piece, KeptResults keep) {
  const bool has_backward = piece.tensors[piece.output].has_gradient();
  if (keep == KeptResults::All || !has_backward) return listed(kept_by_autograd(piece));
  Numbers kept{piece.input};
  if (keep == KeptResults::Products) kept.merge(kept_products(piece));
  return listed(kept);
}

std::vector<size_t> offloaded_tensors(const Graph& piece, KeptResults keep, int64_t least_bytes) {
  std::vector<size_t> stored = kept_tensors(piece, keep == KeptResults::All ? keep : KeptResults::None);
  std::erase_if(stored, [&](size_t number) {
    const GraphTensor& tensor = piece.tensors[number];
    return tensor.bytes < least_bytes || tensor.stays_in_memory;
  });
  return stored;
}

std::vector<size_t> backward_tensors(const Graph& piece, KeptResults keep) {
  Numbers kept = kept_by_autograd(piece);
  if (keep != KeptResults::All) add_all(kept, kept_tensors(piece, keep));
  return listed(kept);
}

int64_t bytes_of(const Graph& graph, const std::vector<size_t>& tensors) { return total(piece_bytes(graph, tensors)); }

Pieces pieces_of(const ModelGraphs& model, const std::vector<KeptResults>& layers) {
  Pieces pieces{{&model.embedding}};
  for (const KeptResults keep : layers) pieces.push_back({&model.graph_of_layer(pieces.size() - 1), keep});
  pieces.push_back({&model.norm});
  pieces.push_back({&model.head});
  return pieces;
}

ActivationBytes activation_bytes(const Pieces& pieces) {
  FactsOfPieces<PieceSizes> facts;
  PieceBytes kept;
  ActivationBytes bytes;
  for (const Piece& piece : pieces) {
    const PieceSizes& sizes = facts.of(piece);
    // When this piece's backward begins, all that came behind it is gone.
    bytes.peak = std::max(bytes.peak, total(with_piece(kept, sizes.backward)));
    kept = with_piece(kept, sizes.kept);
  }
  bytes.forward = total(kept);
  bytes.peak = std::max(bytes.peak, bytes.forward);
  return bytes;
}

ActivationBytes activation_bytes(const ModelGraphs& model, const std::vector<KeptResults>& layers) {
  return activation_bytes(pieces_of(model, layers));
}

OffloadedBytes offloaded_bytes(const Pieces& pieces, int64_t least_bytes) {
  FactsOfPieces<OffloadedPiece> facts;
  PieceBytes in_files, in_memory;
  int64_t peak = 0;
  for (const Piece& piece : pieces) {
    const OffloadedPiece& sizes = facts.of(piece, least_bytes);
    peak = std::max(peak, total(with_piece(in_memory, sizes.second_run)));
    in_files = with_piece(in_files, sizes.in_files);
    in_memory = with_piece(in_memory, sizes.in_memory);
  }
  return {.in_memory = std::max(peak, total(in_memory)), .in_files = total(in_files)};
}

namespace {

// Beyond its input, which it keeps in any case. Tables that layers share count for each of them, as in a run.
BudgetedBlock budgeted_layer(const Graph& layer, size_t number, double product_share) {
  const auto bytes_beyond_input = [&](std::vector<size_t> tensors) {
    std::erase(tensors, layer.input);
    return bytes_of(layer, tensors);
  };
  const std::vector<size_t> products = kept_tensors(layer, KeptResults::Products),
                            all = kept_tensors(layer, KeptResults::All);
  std::vector<size_t> unsaved;
  std::ranges::set_difference(products, all, std::back_inserter(unsaved));
  return {.name = std::to_string(number),
          .choices = {{.keep = KeptResults::None, .seconds = 1},
                      {.keep = KeptResults::Products,
                       .kept_bytes = bytes_beyond_input(products),
                       .backward_bytes = bytes_beyond_input(unsaved),
                       .seconds = 1 - product_share},
                      {.keep = KeptResults::All, .kept_bytes = bytes_beyond_input(all)}}};
}

}  // namespace

ActivationTimeline activation_timeline(const ModelGraphs& model, size_t layers, double product_share) {
  const Pieces pieces = pieces_of(model, std::vector<KeptResults>(layers, KeptResults::None));
  FactsOfPieces<PieceSizes> facts;
  ActivationTimeline timeline;
  PieceBytes kept = facts.of(pieces[0]).kept;
  for (size_t layer = 0; layer < layers; ++layer) {
    const Piece& piece = pieces[layer + 1];
    timeline.blocks.push_back(budgeted_layer(*piece.graph, layer, product_share));
    timeline.peaks.push_back(total(with_piece(kept, facts.of(piece).backward)));
    kept = with_piece(kept, facts.of(piece).kept);
  }
  timeline.peaks.push_back(activation_bytes(pieces).forward);
  return timeline;
}

}  // namespace fsdp::plan
