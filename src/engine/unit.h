// One unit of a sharded model: its layout, its memory and where its gradients are.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "engine/shape.h"
#include "engine/unit_gradients.h"
#include "interpose/parameter.h"
#include "layout/unit_layout.h"

namespace fsdp::engine {

struct Unit {
  // `gradient_options`: the dtype in which gradients are reduced, and the device.
  Unit(std::string name, const layout::UnitLayout& layout, std::vector<Shape> parameter_shapes,
       const torch::TensorOptions& gradient_options)
      : name(std::move(name)),
        layout(layout),
        gradient_layout(layout, std::vector<uint8_t>(layout.parameters())),
        shapes(std::move(parameter_shapes)),
        gradients(shapes, gradient_options) {}

  // Parameter `index` within a tensor that holds the whole unit.
  torch::Tensor view(const torch::Tensor& full, size_t index) const {
    return full.as_strided(shapes[index].sizes, shapes[index].strides, full.storage_offset() + layout.offset_of(index));
  }
  // Per parameter: whether it wants a gradient now.
  std::vector<uint8_t> trainable() const {
    std::vector<uint8_t> wanted;
    for (const auto& parameter : parameters) wanted.push_back(parameter.tensor().requires_grad());
    return wanted;
  }
  torch::ScalarType dtype() const { return storage->dtype(); }  // of full parameters

  std::string name;
  layout::UnitLayout layout;
  layout::GradientLayout gradient_layout;  // of the parameters that wanted a gradient in the last backward
  std::vector<Shape> shapes;
  std::unique_ptr<collectives::UnitCollectives> collectives;
  torch::Tensor shard;  // this rank's part of the parameters in fp32; that of `collectives` where full ones are fp32
  c10::intrusive_ptr<interpose::UnitStorage> storage;
  std::vector<interpose::AttachedParameter> parameters;
  size_t first_piece = 0;  // of this unit in the model's parameters

  UnitGradients gradients;  // of this backward
  collectives::GradientSum sum;
  torch::Tensor full;           // memory of its own inside full_parameters
  bool gathered_ahead = false;  // from peers, for the next micro-batch, where it counts
};

}  // namespace fsdp::engine
