#include "plan/tensor_peak.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "plan/piece_facts.h"

namespace fsdp::plan {

namespace {

// Gradients on their way. Several tensors may have the same one: a sum hands its own on to each term.
class Gradients {
 public:
  explicit Gradients(size_t tensors) : places_(tensors) {}

  int64_t bytes() const { return bytes_; }
  bool has(size_t tensor) const { return places_[tensor].has_value(); }

  void make(size_t tensor, int64_t bytes) {
    places_[tensor] = buffers_.size();
    buffers_.push_back({.bytes = bytes, .users = 1});
    bytes_ += bytes;
  }
  void pass(size_t from, size_t to) {
    places_[to] = places_[from];
    ++buffers_[*places_[to]].users;
  }
  void release(size_t tensor) {
    if (!has(tensor)) return;
    Buffer& buffer = buffers_[*places_[tensor]];
    if (--buffer.users == 0) bytes_ -= buffer.bytes;
    places_[tensor].reset();
  }

 private:
  struct Buffer {
    int64_t bytes;
    int users;
  };

  std::vector<std::optional<size_t>> places_;  // in `buffers_`, by tensor
  std::vector<Buffer> buffers_;
  int64_t bytes_ = 0;
};

// The backward of a piece, operator after operator from the last one.
class PieceBackward {
 public:
  PieceBackward(const Graph& piece, KeptResults keep, const StepTensors& step)
      : piece_(piece), place_(step.gradients), first_user_(piece.tensors.size()), gradients_(piece.tensors.size()) {
    for (size_t i = piece.operators.size(); i-- > 0;) {
      for (const size_t kept : piece.operators[i].keeps) first_user_[kept] = i;
    }
    // The checkpoint holds its inputs and results until the end.
    if (keep != KeptResults::All) checkpointed_ = kept_tensors(piece, keep);
    for (const size_t held : checkpointed_) first_user_[held].reset();
    if (keep == KeptResults::All && step.offloaded_from)
      offloaded_ = offloaded_tensors(piece, keep, *step.offloaded_from);
    for (const size_t tensor : backward_tensors(piece, keep))
      kept_bytes_ += is_offloaded(tensor) ? 0 : own_bytes(tensor);
    if (piece.tensors[piece.output].has_gradient())
      gradients_.make(piece.output, piece.tensors[piece.output].gradient_bytes);
  }

  // The most bytes at once. A checkpoint runs the piece again before its last operator's backward.
  int64_t run() {
    int64_t peak = checkpointed_.empty() ? 0 : run_again();
    for (size_t i = piece_.operators.size(); i-- > 0;) peak = std::max(peak, run(i));
    return peak;
  }
  // Bytes of parameters' gradients that stay when it ends.
  int64_t parameter_bytes() const { return parameter_bytes_; }

 private:
  int64_t own_bytes(size_t tensor) const { return piece_.tensors[tensor].is_common ? 0 : piece_.tensors[tensor].bytes; }

  bool is_offloaded(size_t tensor) const { return std::ranges::binary_search(offloaded_, tensor); }

  int64_t run_again() const {
    std::set<size_t> kept(checkpointed_.begin(), checkpointed_.end());
    int64_t bytes = 0, peak = 0;
    for (const size_t tensor : kept) bytes += own_bytes(tensor);
    for (const Operator& operation : piece_.operators) {
      for (const size_t tensor : operation.keeps) bytes += kept.insert(tensor).second ? own_bytes(tensor) : 0;
      int64_t results = 0;
      for (const size_t tensor : operation.writes) results += kept.contains(tensor) ? 0 : own_bytes(tensor);
      peak = std::max(peak, bytes + results + operation.forward_bytes);
    }
    return peak + gradients_.bytes();
  }

  int64_t run(size_t number) {
    const Operator& operation = piece_.operators[number];
    int64_t added = 0;  // to gradients that are there already, and freed at once
    for (const size_t read : operation.reads) added += make_gradient(operation, read);
    // The head's gradient waits for that of the embedding that it is tied to.
    const bool stays = place_ == ParameterGradients::OfAutograd || operation.kind == OperatorKind::Loss;
    if (stays) parameter_bytes_ += operation.parameter_bytes;
    const bool passes = !stays && operation.kind == OperatorKind::Lookup;
    const int64_t bytes = kept_bytes_ + gradients_.bytes() + added + operation.backward_bytes + parameter_bytes_ +
                          (passes ? operation.parameter_bytes : 0);
    int64_t from_files = 0;
    for (const size_t kept : operation.keeps) {
      if (is_offloaded(kept)) {
        from_files += own_bytes(kept);
      } else if (first_user_[kept] == number) {
        kept_bytes_ -= own_bytes(kept);
      }
    }
    for (const size_t written : operation.writes) gradients_.release(written);
    return bytes + from_files;
  }

  int64_t make_gradient(const Operator& operation, size_t read) {
    const int64_t bytes = piece_.tensors[read].gradient_bytes;
    if (bytes == 0) return 0;
    if (gradients_.has(read)) return operation.passes_gradient ? 0 : bytes;
    if (operation.passes_gradient) {
      if (gradients_.has(operation.writes.back())) gradients_.pass(operation.writes.back(), read);
    } else {
      gradients_.make(read, bytes);
    }
    return 0;
  }

  const Graph& piece_;
  ParameterGradients place_;
  std::vector<size_t> offloaded_;
  std::vector<size_t> checkpointed_;               // held by a checkpoint until the end
  std::vector<std::optional<size_t>> first_user_;  // by tensor: the operator whose backward frees it
  Gradients gradients_;
  int64_t kept_bytes_ = 0, parameter_bytes_ = 0;
};

// The forward of a piece, operator after operator, if nothing is kept. The bytes at its most.
class PieceForward {
 public:
  explicit PieceForward(const Graph& piece) : piece_(piece), last_reader_(piece.tensors.size()) {
    std::vector<bool> only_of_norms(piece.tensors.size(), true);
    for (size_t i = 0; i < piece.operators.size(); ++i) {
      for (const size_t read : piece.operators[i].reads) {
        last_reader_[read] = i;
        only_of_norms[read] = only_of_norms[read] && piece.operators[i].kind == OperatorKind::Normalisation;
      }
    }
    only_of_norms_ = std::move(only_of_norms);
    only_of_norms_[piece.input] = only_of_norms_[piece.output] = false;
    add(piece.input);
  }

  int64_t run() {
    int64_t peak = bytes_;
    for (size_t i = 0; i < piece_.operators.size(); ++i) {
      const Operator& operation = piece_.operators[i];
      for (const size_t read : operation.reads) add(read);  // data that no operator writes
      if (operation.ends_branch) end_branch(operation);
      for (const size_t written : operation.writes) add(written);
      peak = std::max(peak, bytes_ + operation.forward_bytes);
      for (const size_t read : operation.reads) {
        if (only_of_norms_[read] && last_reader_[read] == i) remove(read);
      }
    }
    return peak;
  }

 private:
  void add(size_t tensor) { bytes_ += live_.insert(tensor).second ? piece_.tensors[tensor].bytes : 0; }
  void remove(size_t tensor) { bytes_ -= live_.erase(tensor) > 0 ? piece_.tensors[tensor].bytes : 0; }

  void end_branch(const Operator& sum) {
    const std::set<size_t> before = live_;
    for (const size_t tensor : before) {
      const bool stays = piece_.tensors[tensor].is_common || std::ranges::find(sum.reads, tensor) != sum.reads.end();
      if (!stays) remove(tensor);
    }
  }

  const Graph& piece_;
  std::vector<size_t> last_reader_;
  std::vector<bool> only_of_norms_;  // tensors that no other operators read
  std::set<size_t> live_;
  int64_t bytes_ = 0;
};

// A piece with one choice of its checkpoint.
struct PiecePeak {
  PiecePeak(const Piece& of, const StepTensors& step) {
    const Graph& piece = *of.graph;
    const bool has_files = step.offloaded_from.has_value();
    const std::vector<size_t> stored =
        has_files ? offloaded_tensors(piece, of.keep, *step.offloaded_from) : std::vector<size_t>();
    for (const size_t tensor : kept_tensors(piece, of.keep)) {
      if (std::ranges::binary_search(stored, tensor)) continue;
      (piece.tensors[tensor].is_common ? common : kept) += piece.tensors[tensor].bytes;
    }
    // A checkpoint holds the arguments of its function, and common tensors are among them.
    if (of.keep != KeptResults::All) {
      common = 0;
      for (const GraphTensor& tensor : piece.tensors) common += tensor.is_common ? tensor.bytes : 0;
    }
    PieceBackward walk(piece, of.keep, step);
    backward = walk.run();
    parameters = walk.parameter_bytes();
    if (has_files) forward = PieceForward(piece).run();
    for (const Operator& operation : piece.operators)  // the loss makes its chunks when all else is kept
      last_forward = operation.kind == OperatorKind::Loss ? operation.forward_bytes : last_forward;
  }

  int64_t kept = 0, common = 0;
  int64_t forward = 0, last_forward = 0;
  int64_t backward = 0, parameters = 0;
};

// Pieces in the order of the forward, each with the bytes before it.
class StepPeak {
 public:
  void add(const PiecePeak& piece) {
    starts_.push_back({piece.backward + before_ + std::max(common_, piece.common), piece.parameters});
    forward_ = std::max(forward_, before_ + common_ + piece.forward);
    before_ += piece.kept;
    common_ = std::max(common_, piece.common);
    forward_ = std::max(forward_, before_ + common_ + piece.last_forward);
  }
  int64_t forward() const { return forward_; }

  // Gradients of parameters that stay come in the order of the backward.
  int64_t backward() const {
    int64_t peak = 0, parameters = 0;
    for (auto piece = starts_.rbegin(); piece != starts_.rend(); ++piece) {
      peak = std::max(peak, piece->peak + parameters);
      parameters += piece->parameters;
    }
    return peak;
  }

 private:
  struct Start {
    int64_t peak, parameters;
  };
  std::vector<Start> starts_;
  int64_t before_ = 0, common_ = 0, forward_ = 0;
};

struct EvaluatedPiece {
  explicit EvaluatedPiece(const Piece& piece) : peak(PieceForward(*piece.graph).run()) {}
  int64_t peak;
};

}  // namespace

int64_t tensor_peak_bytes(const Pieces& pieces, const StepTensors& step) {
  FactsOfPieces<PiecePeak> facts;
  StepPeak sum;
  for (const Piece& piece : pieces) sum.add(facts.of(piece, step));
  return std::max(sum.forward(), sum.backward());
}

int64_t tensor_peak_bytes(const ModelGraphs& model, const std::vector<KeptResults>& layers,
                          ParameterGradients gradients) {
  return tensor_peak_bytes(pieces_of(model, layers), {.gradients = gradients});
}

int64_t evaluation_peak_bytes(const Pieces& pieces) {
  FactsOfPieces<EvaluatedPiece> facts;
  int64_t peak = 0;
  for (const Piece& piece : pieces) peak = std::max(peak, facts.of(piece).peak);
  return peak;
}

}  // namespace fsdp::plan
