// The events of sharded parameters, their pieces and their gradients, and who is told of them.
//
// A model has one listener and one link. Storages and accumulators share the link, and so outlive the listener: after
// its end a use of a parameter is an error.
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>

namespace fsdp::interpose {

class PieceStorage;

// A piece's gradient among an operator's arguments.
struct GradientUse {
  PieceStorage* storage;
  bool written;
  bool whole;  // every element of it
};

// The operation by which set_data announces itself.
inline constexpr const char* kSetData = "set_data (module->to() or a conversion)";

// The ways in which an operator uses pieces (piece_storage.h).
struct PieceUse {
  c10::SmallVector<GradientUse, 2> gradients;
  bool writes_parameters = false;
  bool takes_parameters = false;  // whole ones of the same model, beside the pieces
};

// Threads: calls come from threads that run operators and backward passes, several at once. Exceptions reach the caller
// of the operator or of `backward`. Units and parameters are named by their numbers.
class Listener {
 public:
  virtual ~Listener() = default;

  // `operation` takes these units, each named once; `written` is the first of them that it writes. Once this returns
  // their bytes are there, until `operator_ends` with the same units.
  virtual void operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) = 0;
  virtual void operator_ends(std::span<const int> units) noexcept = 0;
  // Before that, if it writes one and did not throw.
  virtual void operator_wrote(const char* operation) = 0;
  // A view of a parameter of this unit is about to be made, the first since `Link::changed` was set.
  virtual void parameter_viewed(int unit) = 0;
  // `operation` is about to use pieces in this way.
  virtual void pieces_used(const PieceUse& use, const char* operation) = 0;
  // A piece's grad() is about to be returned while `Link::local_sums` is set.
  virtual void gradient_read() = 0;
  // Where a parameter's gradient, which is about to be computed and to arrive next, can be written: of the parameter's
  // sizes, strides and dtype, and alone in its storage. Undefined: anywhere.
  virtual torch::Tensor gradient_destination(int unit, int parameter) = 0;
  // Autograd's gradient for one parameter of a unit.
  virtual void gradient_arrives(int unit, int parameter, torch::Tensor gradient) = 0;
  // A backward that was noted by a BackwardWatch is over.
  virtual void backward_ends(int task) = 0;
};

// The way from a storage or an accumulator to the listener.
struct Link {
  Listener* listener = nullptr;    // null once it has gone
  std::weak_ptr<void> model = {};  // the engine's, for Model::of
  // True if the parameters' values changed since one was used or viewed last: the listener sets and resets it.
  std::atomic<bool> changed = false;
  // Set while gradients of no_sync scopes wait for their reduction. The listener sets and resets it.
  std::atomic<bool> local_sums = false;
  // The operator that runs on parameters, for messages; null while none does. If several threads run operators, the
  // last to begin.
  std::atomic<const char*> operation = nullptr;
};

}  // namespace fsdp::interpose
