// The gradients of a rank's pieces: their sums over ranks and micro-batches, and what these are still to be multiplied
// by once they have ended (docs/determinism.md).
//
// A unit's sum is one tensor, of which the pieces' gradients are parts. On one rank alone each piece has its own. Not
// for concurrent use.
#pragma once

#include <torch/types.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/unit.h"
#include "fsdp/sharded_model.h"
#include "interpose/listener.h"

namespace fsdp::engine {

class PieceGradients {
 public:
  // `parameters`, of all units one after the other, outlive it. Whoever uses their gradients is told to the listener.
  PieceGradients(std::vector<ShardedParameter>& parameters, std::shared_ptr<interpose::Link> link, int rank, int ranks,
                 torch::Device device)
      : parameters_(parameters), link_(std::move(link)), rank_(rank), device_(device), divisor_(ranks) {}

  // Before a backward adds to the unit's sum, which is laid out as its gradients are.
  void open(Unit& unit);
  // Makes what the unit's sum holds visible.
  void show(Unit& unit);
  // Adds what one rank alone kept.
  void add_kept(Unit& unit);
  void drop(Unit& unit);
  bool any() const;

  // Throws Error where the sums have ended, unless the user has reset all of them.
  void check_open();
  bool closed() const { return closed_; }
  // The sums end: they are to be multiplied by the closing factors.
  void close();
  // New ones begin.
  void reopen();
  void set_divisor(double divisor) { divisor_ = divisor; }
  // From now on the bytes of the unit's gradients can be had without an operator.
  void allow_access(const Unit& unit) { allow_access({&parameters_[unit.first_piece], unit.parameters.size()}); }
  std::vector<float> closing_factors() const;
  // Scaling is put off until the values are read, or until `scale_now`.
  void scale(float factor);
  std::vector<float> take_factors();  // who takes them does the scaling, and may read the bytes
  void scale_now();

 private:
  ShardedParameter& parameter_of(const Unit& unit, size_t index) { return parameters_[unit.first_piece + index]; }
  torch::Tensor& piece_of(const Unit& unit, size_t parameter) { return parameter_of(unit, parameter).piece; }
  void lay_out(Unit& unit);
  void set_gradient(torch::Tensor& piece, const torch::Tensor& gradient);
  void guard(const torch::Tensor& gradient) const;
  static void allow_access(std::span<const ShardedParameter> parameters);

  std::vector<ShardedParameter>& parameters_;
  std::shared_ptr<interpose::Link> link_;
  int rank_;
  torch::Device device_;
  double divisor_;
  bool closed_ = false;
  std::vector<float> factors_;
};

}  // namespace fsdp::engine
