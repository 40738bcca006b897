// The sum of one unit's gradients over ranks and micro-batches, which the pieces of the unit show as their gradients.
//
// The sum of this rank's shard is one tensor, of which the pieces' gradients are parts. On one rank alone each piece
// has a gradient of its own instead. The class has so many functions because each event in the life of a sum is one, a
// few lines each: from `open` over reductions, factors and reads to `end` or `drop`. Not for concurrent use.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "buffers/arena.h"
#include "collectives/group.h"
#include "engine/unit_gradients.h"
#include "interpose/piece_storage.h"
#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"

namespace fsdp::engine {

class UnitGradientSum {
 public:
  // `pieces` are the unit's, one for each parameter: [numel of the piece], fp32. The link's listener is called for
  // reads and writes of their gradients. `allocate` makes the memory of the sum.
  UnitGradientSum(const layout::UnitLayout& layout, int rank, std::vector<torch::Tensor> pieces,
                  std::shared_ptr<interpose::Link> link, buffers::Allocate allocate);

  // Throws Error where a backward cannot add to the parameter's gradient, of which `name` is the name: its sum has
  // ended, or the user has set it.
  void check_can_add(size_t parameter, const std::string& name) const;
  // Before a backward adds to the sum. `trainable`: per parameter, whether it wants a gradient now.
  void open(std::vector<uint8_t> trainable);
  // Before a reduction adds to the sum: there is memory for it.
  void make_memory();
  // Instead, where it has none: the sum takes the place of the gradients of the whole unit, in fp32, which lie in
  // `gradients` as the layout says.
  void begin_in(const torch::Tensor& gradients) { sum_.values = gradients; }
  // The sum, complete and not shown yet, moves out of there.
  void leave(const torch::Tensor& gradients);
  bool has_memory() const { return sum_.values.defined(); }
  // The memory of a dropped sum, for other use; undefined if there is none, or if it has another holder.
  torch::Tensor take_idle_memory();
  // Lays gradients out for these parameters, before any came.
  void lay_out(std::vector<uint8_t> wanted) { gradient_layout_ = {layout_, std::move(wanted)}; }
  // The pieces' gradients have what was summed up.
  void show();
  // Shows the gradients again: the sum holds those of other parameters than were shown.
  void correct();
  // Adds the gradients that one rank alone kept.
  void add_kept(UnitGradients& gradients);
  // The pieces have no gradient from now on. A gradient that the user still holds keeps its values.
  void drop();
  // So does the memory.
  void give_back();

  // True if the sum is divided when it has ended: then the bytes of the pieces' gradients, which are not yet, are
  // refused until `end`. Operators that read them end the sum.
  void set_divided_later(bool divided_later) { divided_later_ = divided_later; }
  // True if some gradients are summed up here and others are complete: read before, or set by the user.
  bool is_partly_ended() const;
  // True if all elements of this rank's piece of the gradient are finite, before any factor that is still to come.
  bool is_finite(size_t parameter) const;
  // True if the user has reset every gradient, or set it to zero.
  bool is_zeroed() const;
  // Multiplies the gradients that are not complete.
  void scale_open(float factor);
  // Every gradient is complete from now on. The caller multiplies them by the factors that are outstanding.
  void end();
  // The gradients are still to be multiplied by factors: their bytes are refused until `end`.
  void refuse_access_until_scaled();

  const std::vector<torch::Tensor>& pieces() const { return pieces_; }
  bool any() const;
  collectives::GradientSum& sum() { return sum_; }
  const torch::Tensor& values() const { return sum_.values; }  // undefined where there is none
  // The layout of the parameters with a gradient in the last backward.
  const layout::GradientLayout& gradient_layout() const { return gradient_layout_; }
  int64_t bytes() const;

 private:
  void change_layout(std::vector<uint8_t> wanted);
  bool holds_any() const;
  torch::Tensor& gradient_of(size_t parameter) const;
  interpose::PieceStorage* storage_of(size_t parameter) const;
  void set_gradient(size_t parameter, const torch::Tensor& gradient, interpose::PieceStorage::Sum sum);
  void add_again(size_t parameter);
  void refuse_until_divided(size_t parameter);

  layout::UnitLayout layout_;
  int rank_;
  std::vector<torch::Tensor> pieces_;
  std::shared_ptr<interpose::Link> link_;
  buffers::Allocate allocate_;
  layout::GradientLayout gradient_layout_;
  collectives::GradientSum sum_;
  bool divided_later_ = false;
};

}  // namespace fsdp::engine
