// One unit of a sharded model: its layout, its memory and where its gradients are.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "interpose/parameter.h"
#include "layout/unit_layout.h"

namespace fsdp::engine {

// A dense tensor that a unit holds: its strides stay as the user chose them (channels-last weights).
struct Shape {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct Unit {
  Unit(std::string name, const layout::UnitLayout& layout)
      : name(std::move(name)), layout(layout), gradient_layout(layout, std::vector<uint8_t>(layout.parameters())) {}

  // Parameter `index` within a tensor that holds the whole unit.
  torch::Tensor view(const torch::Tensor& full, size_t index) const {
    return full.as_strided(shapes[index].sizes, shapes[index].strides, full.storage_offset() + layout.offset_of(index));
  }
  // Parameter `index` within a tensor that holds the unit's gradients.
  torch::Tensor gradient_view(const torch::Tensor& full, size_t index) const {
    return full.as_strided(shapes[index].sizes, shapes[index].strides,
                           full.storage_offset() + gradient_layout.offset_of(index));
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

  collectives::GradientSum sum;
  torch::Tensor gradients;          // the buffer in which this backward's are completed; undefined when there is none
  std::vector<torch::Tensor> kept;  // the same for one rank alone: per parameter, what autograd made
  std::vector<uint8_t> present;     // per parameter: whether there is one
  // Per parameter: alive while autograd holds a gradient that it was told to write there.
  std::vector<std::weak_ptr<const torch::Tensor>> placed;
  std::vector<std::pair<int, torch::Tensor>> late;  // of parameters: came while there was no place for them
  torch::Tensor full;                               // memory of its own inside full_parameters
};

}  // namespace fsdp::engine
