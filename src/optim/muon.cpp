#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/names.h"
#include "engine/model.h"
#include "optim/adamw.h"
#include "optim/model_matrices.h"
#include "optim/newton_schulz.h"
#include "optim/rule_on_pieces.h"

namespace fsdp {

namespace {

using optim::MatrixPiece;
using optim::Settings;
using optim::UpdateBatch;

// The settings of Muon's update of a matrix.
struct Method {
  bool nesterov;
  MuonScale scale;
  torch::ScalarType dtype;
};

double factor_of(MuonScale scale, const std::vector<int64_t>& shape) {
  const auto rows = static_cast<double>(shape[0]);
  const double columns = static_cast<double>(c10::multiply_integers(shape)) / rows;
  if (scale == MuonScale::LikeAdamW) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

void update(optim::ModelMatrices& matrices, const UpdateBatch& batch, const Settings& with, const Method& method) {
  std::vector<MatrixPiece> updates;
  for (size_t i = 0; i < batch.pieces.size(); ++i) {
    const torch::Tensor momentum = batch.states[0][i].mul_(*with.momentum).add_(batch.gradients[i]);
    updates.push_back({batch.parameters[i] - batch.unit->first_piece,
                       method.nesterov ? batch.gradients[i].add(momentum, *with.momentum) : momentum.clone()});
  }
  matrices.transform(*batch.unit, updates,
                     [&](const torch::Tensor& matrix) { return optim::orthogonalized(matrix, method.dtype); });
  for (size_t i = 0; i < batch.pieces.size(); ++i) {
    const double factor = factor_of(method.scale, matrices.whole_shape(batch.parameters[i]));
    torch::Tensor piece = batch.pieces[i];
    piece.mul_(1 - *with.lr * *with.weight_decay).add_(updates[i].piece, -*with.lr * factor);
  }
}

bool is_matrix(const ShardedParameter& parameter, const MuonOptions& options) {
  return parameter.shape.size() >= 2 && c10::multiply_integers(parameter.shape) > 0 &&
         matches_any(options.matrices, parameter.name) && !matches_any(options.not_matrices, parameter.name);
}

optim::Rule muon_rule(const std::shared_ptr<engine::Model>& model, const MuonOptions& options,
                      const std::vector<size_t>& matrices) {
  const Method method{options.nesterov, options.scale, options.dtype};
  return {.name = "Muon",
          .defaults = {.patterns = {},
                       .lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .momentum = options.momentum},
          .states = {{"momentum_buffer"}},
          .element_wise = false,
          .update = [method, model, all = std::make_shared<optim::ModelMatrices>(*model, matrices)](
                        const UpdateBatch& batch, const Settings& with) { update(*all, batch, with, method); }};
}

std::vector<std::unique_ptr<optim::RuleOnPieces>> muon_rules(const std::shared_ptr<engine::Model>& model,
                                                             const MuonOptions& options) {
  FSDP_CHECK(options.dtype == torch::kFloat32 || options.dtype == torch::kBFloat16,
             "Muon: found dtype {}, expected Float or BFloat16", toString(options.dtype));
  std::vector<size_t> matrices, others;
  for (size_t i = 0; i < model->parameters().size(); ++i) {
    (is_matrix(model->parameters()[i], options) ? matrices : others).push_back(i);
  }
  FSDP_CHECK(!matrices.empty(),
             "Muon: no parameter is a matrix: of two or more dimensions, its name matching '{}' and none of '{}'. "
             "Change these patterns, or use AdamW.",
             fmt::join(options.matrices, "', '"), fmt::join(options.not_matrices, "', '"));
  std::vector<std::unique_ptr<optim::RuleOnPieces>> rules;
  rules.push_back(
      std::make_unique<optim::RuleOnPieces>(model, muon_rule(model, options, matrices), options.groups, matrices));
  rules.push_back(std::make_unique<optim::RuleOnPieces>(model, optim::adamw_rule("Muon's AdamW", options.adamw),
                                                        options.adamw.groups, others));
  return rules;
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
Muon::Muon(ShardedModel& model, MuonOptions options)
    : PieceOptimizer(model.shared_model(), muon_rules(model.shared_model(), options)) {}

void Muon::set_adamw_lr(double lr) { rules()[1]->set_lr(lr); }

}  // namespace fsdp
