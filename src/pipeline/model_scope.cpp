#include "pipeline/model_scope.h"

#include <algorithm>

#include "engine/model.h"

namespace fsdp::pipeline {

ModelScopes::ModelScopes(const torch::nn::Module& module) {
  for (const torch::Tensor& parameter : module.parameters()) {
    auto model = engine::Model::of(parameter);
    if (model && std::ranges::find(models_, model) == models_.end()) models_.push_back(std::move(model));
  }
}

int ModelScopes::rank() const { return models_.empty() ? 0 : models_[0]->group().rank(); }

int ModelScopes::ranks() const { return models_.empty() ? 1 : models_[0]->group().size(); }

ModelScopes::Scope::Scope(const ModelScopes& models, int64_t number) : models_(models) {
  for (const auto& model : models.models_) outer_.push_back(model->begin_micro_batch(number));
}

ModelScopes::Scope::~Scope() {
  for (size_t i = 0; i < outer_.size(); ++i) models_.models_[i]->end_micro_batch(outer_[i]);
}

}  // namespace fsdp::pipeline
