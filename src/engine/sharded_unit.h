// One unit of a sharded model: its layout, its memory, and where its gradients are.
//
// It knows neither the other units nor what the program does at the moment. The model's lock covers all calls.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "engine/model_spec.h"
#include "engine/shape.h"
#include "engine/unit_gradient_sum.h"
#include "engine/unit_gradients.h"
#include "interpose/parameter.h"
#include "layout/unit_layout.h"
#include "memory/file_pages.h"

namespace fsdp::engine {

class ShardedUnit {
 public:
  // Moves the unit's parameters out of the module: one unit's worth of memory in addition. A collective. Appends the
  // unit's pieces to `parameters`; those of the units before are there already.
  ShardedUnit(int id, const UnitSpec& unit, const ModelSpec& model, const std::shared_ptr<interpose::Link>& link,
              std::vector<ShardedParameter>& parameters);

  // Operators find the full unit at these bytes, which are not owned.
  void bind(void* bytes) { storage_->bind(bytes); }
  // They find nothing.
  void unbind() { storage_->unbind(); }
  void allow_access() { storage_->allow_access(); }
  void forbid_access() { storage_->forbid_access(); }
  // The unit at the bytes where it is bound: [full_numel]. Not to be written.
  torch::Tensor full() const;
  // Peers see the shard as it is now, from their next gather on. The caller has begun the write.
  void publish();
  // `state` belongs to the unit from now on, as long as it is there: an optimizer's, of some piece.
  void add_state(const torch::Tensor& state);
  // Hints for the shard, its sum and its state, as far as they lie in files: they are used soon, or not for a while.
  // Nothing waits.
  void read_ahead() const;
  void put_away() const;
  int64_t offloaded_bytes() const;  // of these, in files
  bool sum_lies_in_file() const;

  // Parameter `index` within a tensor that holds the whole unit.
  torch::Tensor view(const torch::Tensor& full, size_t index) const;
  // Per parameter: whether it wants a gradient now.
  std::vector<uint8_t> trainable() const;
  torch::ScalarType dtype() const { return storage_->dtype(); }  // of full parameters
  torch::Device device() const { return device_; }               // the same
  bool is_divided() const { return layout.shards() > 1; }
  // The tensor of the gradients can become their sum over ranks: it is fp32, and the shard is the whole unit.
  bool sums_in_place() const {
    return !is_divided() && gradients.dtype() == torch::kFloat32 && collectives->capabilities().sums_in_place;
  }
  int64_t shard_bytes() const;  // in fp32 and, where that is another, in the dtype that is gathered

  const std::string name;
  const layout::UnitLayout layout;
  const std::vector<Shape> shapes;  // of the parameters
  const size_t first_piece;         // of this unit among the model's parameters
  std::unique_ptr<collectives::UnitCollectives> collectives;
  // This rank's part of the parameters in fp32; that of `collectives` where full ones are fp32.
  torch::Tensor shard;
  std::vector<interpose::AttachedParameter> parameters;
  UnitGradients gradients;  // of this backward
  UnitGradientSum sum;      // over ranks and micro-batches

 private:
  std::vector<std::shared_ptr<const memory::FilePages>> pages() const;

  c10::intrusive_ptr<interpose::UnitStorage> storage_;
  torch::Device device_;
  std::vector<std::weak_ptr<const memory::FilePages>> states_;  // those in files
};

using Units = std::vector<std::unique_ptr<ShardedUnit>>;

}  // namespace fsdp::engine
