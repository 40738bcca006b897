#include <ATen/ops/_fused_adam.h>

#include "base/error.h"
#include "optim/block8_rule.h"
#include "optim/rule_on_pieces.h"

namespace fsdp {

namespace {

using optim::Settings;
using optim::UpdateBatch;

void update(const UpdateBatch& batch, const Settings& with, const AdamOptions& options) {
  const bool amsgrad = options.amsgrad, maximize = options.maximize;
  if (options.state_dtype == StateDtype::Block8)
    return optim::update_block8(batch, with, optim::WeightDecay::Added, maximize);
  const std::vector<torch::Tensor> largest = amsgrad ? batch.states[2] : std::vector<torch::Tensor>{};
  at::_fused_adam_(batch.pieces, batch.gradients, batch.states[0], batch.states[1], largest, batch.steps, *with.lr,
                   *with.beta1, *with.beta2, *with.weight_decay, *with.eps, amsgrad, maximize);
}

std::vector<optim::RuleState> states_of(const AdamOptions& options) {
  std::vector<optim::RuleState> states = optim::adam_moments(options.state_dtype);
  if (options.amsgrad) states.push_back({"max_exp_avg_sq", states[1].format});
  return states;
}

optim::Rule adam_rule(const AdamOptions& options) {
  FSDP_CHECK(!options.amsgrad || options.state_dtype != StateDtype::Block8,
             "Adam: found amsgrad with state_dtype Block8, expected Float32 or BFloat16: the largest second moment of "
             "each element would be that of its block at times. Leave amsgrad out, or keep the state in BFloat16.");
  return {.name = "Adam",
          .defaults = {.patterns = {},
                       .lr = options.lr,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay},
          .states = states_of(options),
          .takes_kept = options.state_dtype == StateDtype::Block8,
          .kernels_read_steps = true,
          .update = [options](const UpdateBatch& batch, const Settings& with) { update(batch, with, options); }};
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
Adam::Adam(ShardedModel& model, AdamOptions options)
    : PieceOptimizer(model.shared_model(), optim::on_all_parameters(model, adam_rule(options), options.groups)) {}

}  // namespace fsdp
