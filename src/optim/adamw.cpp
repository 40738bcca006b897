#include "optim/adamw.h"

#include <ATen/ops/_fused_adamw.h>

#include "optim/block8_rule.h"
#include "optim/rule_on_pieces.h"

namespace fsdp {

namespace optim {

namespace {

void update(const UpdateBatch& batch, const Settings& with) {
  at::_fused_adamw_(batch.pieces, batch.gradients, batch.states[0], batch.states[1], /*max_exp_avg_sqs=*/{},
                    batch.steps, *with.lr, *with.beta1, *with.beta2, *with.weight_decay, *with.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
}

void update_in_blocks(const UpdateBatch& batch, const Settings& with) {
  update_block8(batch, with, WeightDecay::Decoupled);
}

}  // namespace

Rule adamw_rule(const std::string& name, const AdamWOptions& options) {
  const bool block8 = options.state_dtype == StateDtype::Block8;
  return {.name = name,
          .defaults = {.patterns = {},
                       .lr = options.lr,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay},
          .states = adam_moments(options.state_dtype),
          .takes_kept = block8,
          .kernels_read_steps = true,
          .update = block8 ? update_in_blocks : update};
}

}  // namespace optim

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
AdamW::AdamW(ShardedModel& model, AdamWOptions options)
    : PieceOptimizer(model.shared_model(),
                     optim::on_all_parameters(model, optim::adamw_rule("AdamW", options), options.groups)) {}

}  // namespace fsdp
