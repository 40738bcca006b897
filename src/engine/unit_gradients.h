// The gradients of a unit in one backward: from autograd into the memory that they are reduced from.
//
// Each parameter's is completed in its place in a buffer, where autograd may write it itself. One rank alone needs no
// buffer: its gradients are their own sum, and stay where autograd made them. On a device other than the CPU gradients
// wait to be copied to their places, all of a unit's by one kernel. Not for concurrent use.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/shape.h"
#include "layout/gradient_layout.h"
#include "memory/side_stream.h"

namespace fsdp::engine {

// One that came while there was no place for it.
struct LateGradient {
  int parameter;
  torch::Tensor gradient;
};

class UnitGradients {
 public:
  // `shapes`, which stay where they are, are the parameters'; `options` has the dtype and the device of what is
  // reduced.
  UnitGradients(std::span<const Shape> shapes, const torch::TensorOptions& options)
      : shapes_(shapes), options_(options), parameters_(shapes.size()) {}

  // From now on gradients are completed in `buffer`, laid out so, until `close`. The layout stays where it is.
  void open(const layout::GradientLayout& layout, torch::Tensor buffer);
  // From now on they are kept: `take_kept` gives them away.
  void open_alone();
  // How many of the parameters want a gradient in this backward.
  void expect(int trainable) { trainable_ = trainable; }
  int trainable() const { return trainable_; }
  // Nothing is left in the buffer.
  void close() { buffer_ = torch::Tensor(); }

  // True if a gradient of the parameter can be written.
  bool has_place(int parameter) const { return !layout_ || layout_->wanted()[parameter]; }
  // Where autograd can write the parameter's gradient; undefined where it cannot.
  torch::Tensor place_of(int parameter);
  // Stores the first gradient of a parameter, and adds later ones. The first may wait for its place until `settle`.
  void write(int parameter, torch::Tensor gradient);
  // Copies all waiting gradients to their places.
  void settle();
  // For one rank alone. Copies its gradients to the host, beside the computation.
  void bring_to_host(const memory::SideStream& stream);

  void keep_late(int parameter, torch::Tensor gradient) { late_.push_back({parameter, std::move(gradient)}); }
  bool has_late() const { return !late_.empty(); }
  std::vector<LateGradient> take_late() { return std::exchange(late_, {}); }

  const torch::Tensor& buffer() const { return buffer_; }
  torch::ScalarType dtype() const { return c10::typeMetaToScalarType(options_.dtype()); }
  std::vector<uint8_t> presence() const;  // per parameter: a collectives::Presence
  // True if autograd still adds to what it wrote into the buffer.
  bool held_by_autograd() const;
  // Waits for copies to the host.
  torch::Tensor take_kept(int parameter);

 private:
  struct ParameterGradient {
    bool present = false;
    torch::Tensor waiting;  // to be copied to its place
    torch::Tensor kept;     // by one rank alone
    // Alive while autograd holds a gradient that it was told to write to its place.
    std::weak_ptr<const torch::Tensor> placed;
  };

  bool may_wait(int parameter, const torch::Tensor& gradient) const;
  void make_places();
  torch::Tensor view(int parameter) const;
  torch::Tensor own(const torch::Tensor& gradient, const Shape& shape) const;
  void add_late(int parameter, const torch::Tensor& gradient);

  std::span<const Shape> shapes_;
  torch::TensorOptions options_;
  const layout::GradientLayout* layout_ = nullptr;  // of the buffer; none for one rank alone
  torch::Tensor buffer_;
  std::vector<ParameterGradient> parameters_;
  std::vector<LateGradient> late_;
  std::vector<torch::Tensor> leaving_;  // gradients that are being copied to the host
  memory::Moment arrived_;
  int trainable_ = 0;
};

}  // namespace fsdp::engine
