#include "fsdp/sharded_model.h"

#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/rank_names.h"
#include "engine/full_scope.h"
#include "engine/full_state.h"
#include "engine/reports.h"
#include "optim/clip.h"

namespace fsdp {

CommunicationReport CommunicationReport::since(const CommunicationReport& before) const {
  return {.gathers = gathers - before.gathers,
          .foreseen_gathers = foreseen_gathers - before.foreseen_gathers,
          .reductions = reductions - before.reductions,
          .late_gradients = late_gradients - before.late_gradients,
          .all_reductions = all_reductions - before.all_reductions,
          .wait_seconds = wait_seconds - before.wait_seconds};
}

FullParameters::FullParameters(std::unique_ptr<engine::FullScope> scope) : scope_(std::move(scope)) {}
FullParameters::FullParameters(FullParameters&&) noexcept = default;

FullParameters::~FullParameters() {
  if (scope_.is_moved_from() || scope_.get() == nullptr || scope_->is_unwound())
    return;  // half-written values are dropped
  try {
    close();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());  // a destructor has no other way to say it
  }
}

void FullParameters::close() {
  if (const auto scope = std::exchange(scope_.get(), nullptr)) scope->close();
}

ShardedModel::ShardedModel(std::shared_ptr<engine::Model> model) : model_(std::move(model)) {}
ShardedModel::ShardedModel(ShardedModel&&) noexcept = default;
ShardedModel& ShardedModel::operator=(ShardedModel&&) noexcept = default;
ShardedModel::~ShardedModel() = default;

const std::vector<ShardedParameter>& ShardedModel::parameters() const { return model_->parameters(); }

std::vector<torch::Tensor> ShardedModel::shards() const {
  std::vector<torch::Tensor> pieces;
  for (const ShardedParameter& parameter : parameters()) pieces.push_back(parameter.piece);
  return pieces;
}

double ShardedModel::clip_grad_norm_(double max_norm, double norm_type) {
  engine::Model* const model = &*model_;
  return optim::clip_gradients({&model, 1}, max_norm, norm_type);
}

torch::Tensor ShardedModel::clip_grad_norm_async_(double max_norm, double norm_type) {
  engine::Model* const model = &*model_;
  return optim::clip_gradients_async({&model, 1}, max_norm, norm_type);
}

void ShardedModel::set_gradient_divisor(double divisor) { model_->set_gradient_divisor(divisor); }

NoSync::NoSync(std::shared_ptr<engine::Model> model) : model_(std::move(model)) { model_->begin_no_sync(); }
NoSync::~NoSync() {
  if (!model_.is_moved_from()) model_->end_no_sync();
}
NoSync ShardedModel::no_sync() { return NoSync(shared_model()); }

NamedTensors ShardedModel::full_state(FullStateOptions options) { return engine::full_state(*model_, options); }

const NamedTensors& ShardedModel::buffers() const { return model_->buffers(); }

void ShardedModel::broadcast_buffers(int source) { model_->broadcast_buffers(source); }

bool ShardedModel::any_rank_has_batch(bool here) { return model_->any_rank_has_batch(here); }
void ShardedModel::backward_without_batch() { model_->backward_without_batch(); }

FullParameters ShardedModel::full_parameters(FullParametersOptions options) {
  return FullParameters(std::make_unique<engine::FullScope>(shared_model(), std::move(options)));
}

void ShardedModel::zero_grad() { model_->zero_grad(); }
void ShardedModel::initialise() { model_->initialise(); }
MemoryReport ShardedModel::memory() const { return engine::memory_report(*model_); }
std::optional<ActivationDecision> ShardedModel::activation_decision() const {
  return engine::activation_decision(*model_);
}
void ShardedModel::reset_peak_memory() { model_->begin_activation_peak(); }

std::vector<std::string> ShardedModel::gradients_not_finite() const { return engine::gradients_not_finite(*model_); }
CommunicationReport ShardedModel::communication() const { return engine::communication_report(*model_); }
std::string ShardedModel::waits_for() const { return engine::waits_for(*model_); }
std::string ShardedModel::schedule() const { return engine::schedule_text(*model_); }
Trace ShardedModel::trace(const TraceOptions& options) {
  const auto& group = model_->group();
  const int rank = model_->whole().ranks.at(static_cast<size_t>(group.rank()));  // in the job
  // On a mesh other ranks have traces, too.
  auto running = std::make_shared<report::RunningTrace>(rank, /*alone=*/group.size() == 1 && !is_on_mesh(rank));
  engine::add_trace(*running, shared_model(), options);
  return Trace(std::move(running));
}

}  // namespace fsdp
