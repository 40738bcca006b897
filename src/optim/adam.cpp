#include <ATen/ops/_fused_adam.h>

#include "optim/rule_on_pieces.h"

namespace fsdp {

namespace {

using optim::Settings;
using optim::UpdateBatch;

void update(const UpdateBatch& batch, const Settings& with) {
  at::_fused_adam_(batch.pieces, batch.gradients, batch.states[0], batch.states[1], /*max_exp_avg_sqs=*/{}, batch.steps,
                   *with.lr, *with.beta1, *with.beta2, *with.weight_decay, *with.eps, /*amsgrad=*/false,
                   /*maximize=*/false);
}

optim::Rule adam_rule(const AdamOptions& options) {
  return {.name = "Adam",
          .defaults = {.patterns = {},
                       .lr = options.lr,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay},
          .states = {"exp_avg", "exp_avg_sq"},
          .update = update};
}

}  // namespace

Adam::Adam(ShardedModel& model, AdamOptions options)
    : PieceOptimizer(model.shared_model(), optim::on_all_parameters(model, adam_rule(options), options.groups)) {}

}  // namespace fsdp
