// Optimizers over the shards of a model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/sharded_model.h"

namespace fsdp {

// What every optimizer offers to checkpoints and loops. An optimizer keeps its model's shards alive.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Closes the gradients (docs/determinism.md) and updates the shards. Throws `Error` when there is no gradient.
  virtual void step() = 0;
  virtual void zero_grad() = 0;

  // State of the parameters, element by element. `tensors[i]` belongs to `parameters()[i]` of the model, has the numel
  // of its piece, and may be written to restore it.
  struct ElementState {
    std::string name;
    std::vector<torch::Tensor> tensors;
  };
  // State that is one number a parameter, such as its step count; `tensors[i]` is a scalar.
  struct State {
    std::vector<ElementState> elements;
    std::vector<ElementState> scalars;
  };
  virtual State state() = 0;
};

// Settings for the parameters whose names match one of `patterns` (* and ?); what is not set is as in the options.
struct ParameterGroup {
  std::vector<std::string> patterns;
  std::optional<double> lr = std::nullopt;
  std::optional<double> beta1 = std::nullopt;
  std::optional<double> beta2 = std::nullopt;
  std::optional<double> eps = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  std::vector<ParameterGroup> groups = {};  // the first whose pattern matches a parameter's name
};

// AdamW (Loshchilov and Hutter, https://arxiv.org/abs/1711.05101), by LibTorch's fused kernel. A parameter that no rank
// used since the last step is skipped and keeps its step count, as in PyTorch.
class AdamW final : public Optimizer {
 public:
  // Throws `Error` for a value out of range or a pattern that matches no parameter.
  explicit AdamW(ShardedModel& model, AdamWOptions options = {});
  ~AdamW() override;
  AdamW(AdamW&&) noexcept;
  AdamW& operator=(AdamW&&) noexcept;

  void step() override;
  void zero_grad() override;
  State state() override;
  // For all parameters whose group sets no rate of its own.
  void set_lr(double lr);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fsdp
