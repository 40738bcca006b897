// The divided layers of a module over one axis, for sums over all of their parts.
//
// Ranks of the axis hold parts of the divided parameters, and all others whole. A norm counts the latter on the first
// rank, and a head that several ranks hold on the first of these.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/other_parts.h"
#include "fsdp/tensor_parallel.h"

namespace fsdp {

// The axes of more than one rank over which layers of the module are divided, in the order of the layers. Worlds of the
// same ranks are one axis. Throws Error if two axes have several ranks in common.
std::vector<World> tensor_worlds_of(const torch::nn::Module& module);

// Numbers of the axis's ranks in the job.
std::vector<int> job_ranks(const World& axis);

class TensorAxis final : public engine::DividingAxis {
 public:
  // A collective of the axis. The module's tensors outlive it.
  TensorAxis(World axis, const torch::nn::Module& module);

  World& axis() { return axis_; }
  std::vector<layout::Range> counted_elsewhere(const torch::Tensor& parameter) const override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override { return axis_.all_gather(tensor); }
  const engine::AxisDivision* division_of(const torch::Tensor& parameter) const override;
  void exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from) override;
  int rank() const override { return axis_.rank(); }
  int size() const override { return axis_.size(); }

 private:
  struct Divided {
    engine::AxisDivision division;
    std::vector<layout::Range> shared;  // elements that a rank before holds as well
  };

  World axis_;
  std::unordered_map<const at::TensorImpl*, Divided> divided_;
};

// All axes of the module. A collective of each.
std::vector<std::shared_ptr<engine::DividingAxis>> tensor_axes_of(const torch::nn::Module& module);

}  // namespace fsdp
