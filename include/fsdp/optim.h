// Optimizers over the shards of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/movable.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

// The interface of every optimizer, for training loops and checkpoints. An optimizer keeps its model's shards alive.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Closes the gradients (docs/determinism.md) and updates the shards. Throws `Error` when there is no gradient.
  virtual void step() = 0;
  // Discards the gradients.
  virtual void zero_grad() = 0;

  // State of the parameters, element by element. `tensors[i]` belongs to `parameters()[i]` of the model; write to it to
  // restore it. It is 1-D with the numel of its piece, or undefined if the parameter has no such state. With
  // StateDtype::Block8 it has the codes, and "<name>_scale" has one fp32 per block.
  struct ElementState {
    std::string name;                    // such as "exp_avg"
    std::vector<torch::Tensor> tensors;  // by parameter
  };
  // All state of an optimizer.
  struct State {
    std::vector<ElementState> elements;  // state of the pieces' elements
    std::vector<ElementState> scalars;   // one number per parameter, such as its step count; `tensors[i]` is a scalar
  };
  // The state, for saving and restoring.
  virtual State state() = 0;

  // For the rest of the library.
  virtual engine::Model& model() const = 0;
};

// Settings for the parameters whose names match one of `patterns` (* and ?). Unset fields are as in the options. A
// field that the optimizer does not have, such as beta1 for SGD, is an `Error`, and so is a group without patterns.
struct ParameterGroup {
  std::vector<std::string> patterns;                  // of parameters' names, at least one
  std::optional<double> lr = std::nullopt;            // learning rate; set_lr does not change it
  std::optional<double> beta1 = std::nullopt;         // AdamW, Adam
  std::optional<double> beta2 = std::nullopt;         // AdamW, Adam
  std::optional<double> eps = std::nullopt;           // AdamW, Adam
  std::optional<double> weight_decay = std::nullopt;  // as in the options of the optimizer
  std::optional<double> momentum = std::nullopt;      // SGD, Muon
  std::optional<double> dampening = std::nullopt;     // SGD
};

namespace optim {
class RuleOnPieces;
}
namespace engine {
class GradientFactors;
class ShardedUnit;
}  // namespace engine

// A scope whose backward is the last of its step, opened by `PieceOptimizer::step_in_backward`. Ends when it is
// destroyed, by the thread that opened it; it keeps the model alive until then.
class StepInBackward {
 public:
  StepInBackward(StepInBackward&&) noexcept = default;
  StepInBackward& operator=(StepInBackward&&) = delete;
  ~StepInBackward();

 private:
  friend class PieceOptimizer;
  explicit StepInBackward(std::shared_ptr<engine::Model> model);

  detail::Movable<"StepInBackward", std::shared_ptr<engine::Model>> model_;
};

// The base of the optimizers below: they update the pieces of a model's parameters, each group with its own settings. A
// parameter that no rank used since the last step is skipped and keeps its step count, as in PyTorch.
class PieceOptimizer : public Optimizer {
 public:
  ~PieceOptimizer() override;
  PieceOptimizer(PieceOptimizer&&) noexcept;
  PieceOptimizer& operator=(PieceOptimizer&&) noexcept;

  void step() override;
  // Discards the gradients.
  void zero_grad() override;
  // The state, for saving and restoring.
  State state() override;
  // For the rest of the library.
  engine::Model& model() const override { return *model_; }
  // For the rest of the library: the state, for reading or for a load.
  State own_state() const;
  // For the rest of the library: true if `state` was ever called, so a program may have written to it.
  bool gave_state_out() const { return gave_state_out_; }
  // Begins the step while the backward runs, which saves memory. When a unit's gradients are reduced and the backward
  // no longer needs the unit, its shard is updated and published, and its gradients are freed (docs/memory.md). `step`
  // ends the step, after the backward, inside or behind the scope:
  //
  //   {
  //     auto in_backward = optimizer.step_in_backward();
  //     model->loss(batch).backward();  // the step's last; earlier ones run outside of the scope
  //   }
  //   optimizer.step();
  //
  // Results: bit for bit those of a step after the backward. Every rank opens the scope around the same backward.
  //
  // Which units: the first backward only records. Later ones step each unit that is used as recorded. `step` updates
  // the rest: units that the backward still uses, units without gradients, units of NoShard with fp32 gradients in
  // shared memory, and units whose sums are completed by replicas on other hosts.
  //
  // Gradients are gone after `step`, so `zero_grad` need not be called.
  //
  // Errors: this call throws for Muon, which needs whole matrices. Between the backward and `step`, every other use of
  // the model throws: a forward, a second backward, clipping, unscaling, reading a gradient, saving, changing the rate
  // or the divisor. If a backward uses a unit again after its update, the backward throws on every rank that does so.
  // If some units were updated and then the backward throws, or the optimizer is destroyed before `step`, every later
  // call throws until `load_checkpoint`.
  [[nodiscard]] StepInBackward step_in_backward();
  // Sets the rate of all parameters whose group has no rate. Throws `Error` for a rate out of range.
  void set_lr(double lr);

 protected:
  // The update of each group of parameters.
  using Rules = std::vector<std::unique_ptr<optim::RuleOnPieces>>;
  // For the optimizers below.
  PieceOptimizer(std::shared_ptr<engine::Model> model, Rules rules);
  // For the optimizers below.
  Rules& rules() { return rules_.get(); }

 private:
  using Update = std::function<void(const engine::ShardedUnit& unit, const engine::GradientFactors& factors)>;

  void leave_model() noexcept;

  detail::Movable<"optimizer", std::shared_ptr<engine::Model>> model_;
  detail::Movable<"optimizer", Rules> rules_;
  detail::Movable<"optimizer", std::shared_ptr<const Update>> update_;  // by all rules
  bool gave_state_out_ = false;
};

// How the moments of AdamW and Adam are kept between steps. A step computes in fp32 (with Block8, in a kernel of this
// library). The bits do not depend on the number of ranks or on the strategy.
//
// With fewer bits, a change of less than half the distance to the next value is lost: with BFloat16, less than 1/512 of
// the moment. So with beta2 = 0.999 the second moment hardly falls when gradients become smaller, and steps stay too
// small. A beta2 of 0.99 or less loses little. With Block8 the distances are larger, but the scale is exact, and the
// whole block falls with it.
enum class StateDtype {
  Float32,   // 8 bytes per parameter
  BFloat16,  // 4 bytes per parameter, rounded to nearest even
  // 2.125 bytes per parameter. Each block of 64 elements, in memory order, has 64 codes of 8 bits (int8 for the first
  // moment, uint8 for the second) and one fp32 scale, the largest absolute value. The codes follow the dynamic map of
  // Dettmers et al., https://arxiv.org/abs/2110.02861. 0 and the scale are exact. Elsewhere the error is at most 1.1 %
  // of the scale for the first moment and 0.4 % for the second. A nonzero second moment never becomes 0. A gradient
  // that is not finite spoils its block. For ranks on the CPU.
  Block8,
};

// Options of AdamW, with PyTorch's defaults.
struct AdamWOptions {
  double lr = 1e-3;                              // learning rate, 0 or more
  double beta1 = 0.9;                            // share of the first moment that a step keeps, from 0 to below 1
  double beta2 = 0.999;                          // the same of the second moment
  double eps = 1e-8;                             // added to the root of the second moment
  double weight_decay = 1e-2;                    // decoupled: each step takes lr * weight_decay of the parameter away
  std::vector<ParameterGroup> groups = {};       // the first whose pattern matches a parameter's name
  StateDtype state_dtype = StateDtype::Float32;  // of the moments
};

// AdamW (Loshchilov and Hutter, https://arxiv.org/abs/1711.05101), by LibTorch's fused kernel.
class AdamW final : public PieceOptimizer {
 public:
  // Throws `Error` for a value out of range, a pattern that matches no parameter, or Block8 on a GPU.
  explicit AdamW(ShardedModel& model, AdamWOptions options = {});
};

// Options of Adam, with PyTorch's defaults.
struct AdamOptions {
  double lr = 1e-3;                              // learning rate, 0 or more
  double beta1 = 0.9;                            // share of the first moment that a step keeps, from 0 to below 1
  double beta2 = 0.999;                          // the same of the second moment
  double eps = 1e-8;                             // added to the root of the second moment
  double weight_decay = 0;                       // times the parameter, added to the gradient
  std::vector<ParameterGroup> groups = {};       // the first whose pattern matches a parameter's name
  StateDtype state_dtype = StateDtype::Float32;  // of the moments
  bool amsgrad = false;   // divides by the largest second moment so far: one more tensor of state, and not with Block8
  bool maximize = false;  // steps along the gradient, not against it
};

// Adam (Kingma and Ba, https://arxiv.org/abs/1412.6980), by LibTorch's fused kernel.
class Adam final : public PieceOptimizer {
 public:
  // Throws `Error` for a value out of range, a pattern that matches no parameter, Block8 on a GPU, or with amsgrad.
  explicit Adam(ShardedModel& model, AdamOptions options = {});
};

// Options of SGD.
struct SGDOptions {
  double lr = 1e-3;                         // learning rate, 0 or more
  double momentum = 0;                      // share of it that a step keeps; 0 in all groups: no state is kept
  double dampening = 0;                     // the gradient enters the momentum times 1 - dampening
  double weight_decay = 0;                  // times the parameter, added to the gradient
  bool nesterov = false;                    // needs a momentum and no dampening, in every group
  std::vector<ParameterGroup> groups = {};  // the first whose pattern matches a parameter's name
};

// Stochastic gradient descent with momentum as in torch.optim.SGD, by LibTorch's fused kernel: a parameter's momentum
// begins as its first gradient, undampened. Nesterov's is that of Sutskever et al.,
// https://proceedings.mlr.press/v28/sutskever13.html.
class SGD final : public PieceOptimizer {
 public:
  // Throws `Error` for a value out of range or a pattern that matches no parameter.
  explicit SGD(ShardedModel& model, SGDOptions options = {});
};

// The factor of the orthogonal update of a matrix of [rows, columns].
enum class MuonScale {
  LikeAdamW,  // 0.2 sqrt(max(rows, columns)): as large as AdamW's updates, so AdamW's rates fit (Moonlight)
  Spectral,   // sqrt(max(1, rows / columns)): the change of the output is bounded whatever the shape (Jordan)
};

// Options of Muon.
struct MuonOptions {
  double lr = 1e-3;           // learning rate of the matrices, 0 or more
  double momentum = 0.95;     // share of it that a step keeps
  double weight_decay = 0.1;  // decoupled, as AdamW's: each step takes lr * weight_decay of the parameter away
  bool nesterov = true;       // the update looks one step ahead
  MuonScale scale = MuonScale::LikeAdamW;      // of an update
  torch::ScalarType dtype = torch::kBFloat16;  // of the Newton-Schulz iteration; or kFloat32
  // Muon updates a parameter as a matrix if it has two or more dimensions and its name matches one of `matrices` and
  // none of `not_matrices`. Muon is not meant for embeddings and output layers.
  std::vector<std::string> matrices = {"*"};
  // Patterns of names that AdamW updates in any case.
  std::vector<std::string> not_matrices = {"*embed*", "*token*", "*position*", "*wte*", "*wpe*", "*head*"};
  AdamWOptions adamw = {};                  // of all other parameters; its groups and state_dtype are theirs
  std::vector<ParameterGroup> groups = {};  // of the matrices: the first whose pattern matches a name
};

// Muon (Keller Jordan and others, https://kellerjordan.github.io/posts/muon/) with Moonlight's scale and weight decay
// (https://arxiv.org/abs/2502.16982). It updates each matrix by its momentum, made orthogonal. A parameter of more than
// two dimensions is a matrix of its first dimension by all others. AdamW updates all other parameters.
//
// It needs whole matrices. Unit by unit, each momentum is sent to one rank, and that rank sends the update to all. So
// in a step each rank receives about twice the matrices' elements, and holds about one unit of them. Matrices are
// divided among the ranks by work. `step` is a collective. On one kind of CPU the bits do not depend on the number of
// ranks. Matrices of divided layers (tensor_parallel.h) are put together over their axis, too: then the constructor and
// `step` are collectives of the axis, and the update is that of the whole matrix.
class Muon final : public PieceOptimizer {
 public:
  // Throws `Error` for a value out of range, a model without matrices, or a group's pattern that matches none of its
  // parameters. Throws it also if ranks of a tensor axis have other divided matrices or units.
  explicit Muon(ShardedModel& model, MuonOptions options = {});
  // Sets the rate of all other parameters; `set_lr` sets that of the matrices.
  void set_adamw_lr(double lr);
};

// Options of GradScaler, with PyTorch's defaults.
struct GradScalerOptions {
  double init_scale = 65536;       // the first scale, above 0
  double growth_factor = 2;        // of the scale after growth_interval good steps
  double backoff_factor = 0.5;     // of the scale after a skipped step
  int64_t growth_interval = 2000;  // steps without infinities or NaN after which the scale grows
  bool enabled = true;             // otherwise the scale is 1, and nothing is checked or skipped
};

// Dynamic loss scaling, so that fp16 gradients do not vanish (Micikevicius et al., https://arxiv.org/abs/1710.03740),
// as torch.amp.GradScaler:
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(sharded);  // only to clip before the step
//   scaler.step(optimizer);
//   scaler.update();
//   optimizer.zero_grad();
//
// An infinite or NaN gradient on one rank makes all ranks skip the same step. If scales are powers of two, as by
// default, scaling and unscaling are exact unless a gradient is subnormal: the bits are those of training without a
// scale. One scaler may serve several models, each with one optimizer.
class GradScaler {
 public:
  // Throws `Error` for a value out of range.
  explicit GradScaler(GradScalerOptions options = {});

  // The loss times the scale; an fp16 scalar becomes fp32, which has room for the product. Its backward throws `Error`,
  // before any update, inside a `PieceOptimizer::step_in_backward` of the same model.
  torch::Tensor scale(const torch::Tensor& loss) const;
  // Closes the gradients (docs/determinism.md), divides them by the scale, and finds infinities and NaN. A collective.
  // Throws `Error` when there is no gradient, and the second time since the last `update`.
  void unscale_(ShardedModel& model);
  // Unscales the gradients if `unscale_` was not called, and steps. If a gradient is not finite, it changes nothing and
  // returns false, on all ranks. A collective. Throws `Error` the second time since the last `update`.
  bool step(Optimizer& optimizer);
  // Ends the step. If a step was skipped, the scale becomes smaller; if none was for a while, larger. Throws `Error` if
  // nothing was unscaled since the last `update`.
  void update();
  // The factor of the next loss.
  double scale_value() const { return options_.get().enabled ? state_.get().scale : 1; }

  // To save and restore; the same on every rank.
  struct State {
    double scale = 65536;      // of the next loss
    int64_t finite_steps = 0;  // since the scale last changed
  };
  // The state now, for `load_state`.
  State state() const { return state_.get(); }
  // Throws `Error` for a scale that is not positive and finite.
  void load_state(const State& state);

 private:
  enum class Progress { Finite, NotFinite, Stepped, Skipped };  // of a model's gradients since they were unscaled

  bool unscale(engine::Model& model);

  detail::Movable<"GradScaler", GradScalerOptions> options_;
  detail::Movable<"GradScaler", State> state_;
  detail::Movable<"GradScaler", std::map<const engine::Model*, Progress>> progress_;
};

}  // namespace fsdp
