#include "fsdp/sharded_models.h"

#include <algorithm>

#include "base/error.h"
#include "engine/reports.h"
#include "optim/clip.h"

namespace fsdp {

ShardedModels::ShardedModels(const std::vector<std::reference_wrapper<const ShardedModel>>& models) {
  FSDP_CHECK(!models.empty(), "ShardedModels: found no model, expected one or more");
  for (const ShardedModel& model : models) {
    FSDP_CHECK(std::ranges::find(models_.get(), model.shared_model()) == models_.get().end(),
               "ShardedModels: found model {} among the ones before it. Name each model once.", models_.get().size());
    models_.get().push_back(model.shared_model());
  }
}

void ShardedModels::set_gradient_divisor(double divisor) {
  for (const auto& model : models_.get()) model->set_gradient_divisor(divisor);
}

namespace {

std::vector<engine::Model*> pointers(const std::vector<std::shared_ptr<engine::Model>>& models) {
  std::vector<engine::Model*> all;
  for (const auto& model : models) all.push_back(model.get());
  return all;
}

}  // namespace

double ShardedModels::clip_grad_norm_(double max_norm, double norm_type) {
  return optim::clip_gradients(pointers(models_.get()), max_norm, norm_type);
}

torch::Tensor ShardedModels::clip_grad_norm_async_(double max_norm, double norm_type) {
  return optim::clip_gradients_async(pointers(models_.get()), max_norm, norm_type);
}

void ShardedModels::zero_grad() {
  for (const auto& model : models_.get()) model->zero_grad();
}

MemoryReport ShardedModels::memory() const {
  MemoryReport sum;
  for (const auto& model : models_.get()) {
    const MemoryReport one = engine::memory_report(*model);
    sum.parameter_bytes += one.parameter_bytes;
    sum.gradient_bytes += one.gradient_bytes;
    sum.optimizer_bytes += one.optimizer_bytes;
    sum.full_parameter_bytes += one.full_parameter_bytes;
    sum.full_gradient_bytes += one.full_gradient_bytes;
    sum.offloaded_bytes += one.offloaded_bytes;
    sum.offloaded_activation_bytes += one.offloaded_activation_bytes;
    sum.save_copy_bytes += one.save_copy_bytes;
  }
  return sum;
}

}  // namespace fsdp
