#include <ATen/ops/_fused_sgd.h>

#include <algorithm>

#include "base/error.h"
#include "optim/rule_on_pieces.h"

namespace fsdp {

namespace {

using optim::Settings;
using optim::UpdateBatch;
using Tensors = std::vector<torch::Tensor>;

// The kernel knows one first step for all that it is given, but a parameter that was not used before has its own.
void update_with_momentum(const UpdateBatch& batch, const Settings& with, bool nesterov) {
  for (const bool first : {true, false}) {
    Tensors pieces, gradients, momenta;
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      if ((batch.steps[i].item<double>() == 1) != first) continue;
      pieces.push_back(batch.pieces[i]);
      gradients.push_back(batch.gradients[i]);
      momenta.push_back(batch.states[0][i]);
    }
    if (pieces.empty()) continue;
    at::_fused_sgd_(pieces, gradients, momenta, *with.weight_decay, *with.momentum, *with.lr, *with.dampening, nesterov,
                    /*maximize=*/false, /*is_first_step=*/first);
  }
}

void update(const UpdateBatch& batch, const Settings& with, bool nesterov) {
  if (*with.momentum != 0) return update_with_momentum(batch, with, nesterov);
  at::_fused_sgd_(batch.pieces, batch.gradients, /*momentum_buffer_list=*/Tensors{}, *with.weight_decay, *with.momentum,
                  *with.lr, *with.dampening, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
}

void check_nesterov(const Settings& with) {
  FSDP_CHECK(*with.momentum > 0 && *with.dampening == 0,
             "SGD: nesterov is set, found momentum {} and dampening {}, expected a positive momentum and no dampening, "
             "in every group",
             *with.momentum, *with.dampening);
}

optim::Rule sgd_rule(const SGDOptions& options) {
  const Settings defaults{.patterns = {},
                          .lr = options.lr,
                          .weight_decay = options.weight_decay,
                          .momentum = options.momentum,
                          .dampening = options.dampening};
  std::vector<Settings> all{defaults};
  for (const ParameterGroup& group : options.groups) all.push_back(optim::resolve(defaults, group));
  if (options.nesterov) std::for_each(all.begin(), all.end(), check_nesterov);
  const bool momentum = std::any_of(all.begin(), all.end(), [](const Settings& one) { return *one.momentum != 0; });
  return {.name = "SGD",
          .defaults = defaults,
          .states = momentum ? std::vector<optim::RuleState>{{"momentum_buffer"}} : std::vector<optim::RuleState>{},
          .update = [nesterov = options.nesterov](const UpdateBatch& batch, const Settings& with) {
            update(batch, with, nesterov);
          }};
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
SGD::SGD(ShardedModel& model, SGDOptions options)
    : PieceOptimizer(model.shared_model(), optim::on_all_parameters(model, sgd_rule(options), options.groups)) {}

}  // namespace fsdp
