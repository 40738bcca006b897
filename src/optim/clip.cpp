#include "optim/clip.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"
#include "memory/mapped_tensor.h"
#include "optim/counted_elements.h"
#include "optim/device_norm.h"
#include "optim/norm.h"
#include "optim/norm_message.h"

namespace fsdp::optim {

namespace {

bool lies_on_cpu(const engine::Model& model) {
  const auto& parameters = model.parameters();
  return parameters.empty() || parameters[0].piece.is_cpu();
}

// The norm of the gradients times their factors, part by part, so that each part is read while it is in a cache. All
// gradients are multiplied, also gradients that other ranks count.
NormSum own_norm(engine::Model& model, double norm_type) {
  const engine::GradientFactors factors = model.gradient_factors_for_use();
  NormSum norm(norm_type);
  const auto add = [&](const ShardedParameter& parameter, const std::vector<layout::Range>& elsewhere) {
    const torch::Tensor& gradient = interpose::gradient_of(parameter.piece);
    if (!gradient.defined()) return;
    int64_t begin = parameter.offset;
    for (const torch::Tensor& part : interpose::plain(gradient).split(int64_t{1 << 17} * at::get_num_threads())) {
      const torch::Tensor counted = without(factors.times({part})[0], begin, elsewhere);
      norm.add({counted.const_data_ptr<float>(), static_cast<size_t>(counted.numel())});
      begin += part.numel();
    }
  };
  const auto& units = model.units();
  for (size_t id = 0; id < units.size(); ++id) {
    if (id + 1 < units.size()) memory::read_ahead(units[id + 1]->sum.values());
    const engine::ShardedUnit& unit = *units[id];
    for (size_t i = 0; i < unit.parameters.size(); ++i) {
      add(model.parameters()[unit.first_piece + i], counted_elsewhere(model, unit.parameters[i].tensor()));
    }
    memory::put_away(unit.sum.values());
  }
  return norm;
}

// norm_words of the gradients times their factors.
torch::Tensor own_norm_words(engine::Model& model, double norm_type) {
  std::vector<torch::Tensor> gradients;
  std::vector<std::pair<int64_t, std::vector<layout::Range>>> elsewhere;  // by gradient, after its first element
  for (const auto& unit : model.units()) {
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      const ShardedParameter& parameter = model.parameters()[unit->first_piece + i];
      const torch::Tensor& gradient = interpose::gradient_of(parameter.piece);
      if (!gradient.defined()) continue;
      gradients.push_back(interpose::plain(gradient));
      elsewhere.emplace_back(parameter.offset, counted_elsewhere(model, unit->parameters[i].tensor()));
    }
  }
  std::vector<torch::Tensor> counted = model.gradient_factors_for_use().times(std::move(gradients));
  for (size_t i = 0; i < counted.size(); ++i) counted[i] = without(counted[i], elsewhere[i].first, elsewhere[i].second);
  // This rank may have none where others do.
  if (counted.empty()) counted.push_back(torch::empty({0}, model.parameters()[0].piece.options()));
  return norm_words(counted, norm_type);
}

NormSum norm_of_all_ranks(engine::Model& model, double norm_type) {
  const NormSum::Words own =
      lies_on_cpu(model) ? own_norm(model, norm_type).words() : on_host(own_norm_words(model, norm_type));
  std::vector<torch::Tensor> messages{as_tensor(own)};
  if (model.shards() > 1) {
    messages = model.group().all_gather(messages[0]);
    messages.resize(model.shards());  // the first shard group holds the whole model once
  }
  NormSum all = sum_of(messages, norm_type);
  for (const auto& axis : model.axes()) all = sum_of(model.gather_over(*axis, as_tensor(all.words())), norm_type);
  return all;
}

// Adds the sums of the models' other stages, of which there is one set.
NormSum over_all_parts(std::span<engine::Model* const> models, const NormSum& own, double norm_type) {
  for (engine::Model* model : models) {
    if (const auto others = model->other_parts())
      return sum_of(model->gather_over(*others, as_tensor(own.words())), norm_type);
  }
  return own;
}

torch::Tensor words_of_all_ranks(engine::Model& model, double norm_type) {
  torch::Tensor words = own_norm_words(model, norm_type);
  if (model.shards() > 1) {
    std::vector<torch::Tensor> all = model.group().all_gather(words);
    all.resize(model.shards());
    words = add_norm_words(all);
  }
  for (const auto& axis : model.axes()) words = add_norm_words(model.gather_over(*axis, words));
  return words;
}

void close(std::span<engine::Model* const> models, double max_norm, double norm_type) {
  check_clip(max_norm, norm_type);
  for (engine::Model* model : models) model->check_parameters("clip_grad_norm_");
  for (engine::Model* model : models) model->close_gradients("clip_grad_norm_");
}

// [] of float32: clip_gradients' factor, or 1.
torch::Tensor factor_of(const torch::Tensor& norm, double max_norm) {
  const torch::Tensor factor = torch::full({}, max_norm, norm.options()) / (norm + kNotZero);
  return torch::where(factor.ge(1.0), torch::ones({}, norm.options()), factor).to(torch::kFloat32);
}

}  // namespace

double clip_gradients(std::span<engine::Model* const> models, double max_norm, double norm_type) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  close(models, max_norm, norm_type);
  NormSum own(norm_type);  // exact, so that neither the models' order nor their ranks show
  for (engine::Model* model : models) own.add(norm_of_all_ranks(*model, norm_type));
  const NormSum sum = over_all_parts(models, own, norm_type);
  const double norm = sum.norm(), factor = max_norm / (norm + kNotZero);
  if (!(factor >= 1.0)) {
    for (engine::Model* model : models) {
      if (!model->is_frozen_part()) model->scale_gradients(static_cast<float>(factor));
    }
  }
  return norm;
}

torch::Tensor clip_gradients_async(std::span<engine::Model* const> models, double max_norm, double norm_type) {
  if (std::ranges::any_of(models,
                          [](const engine::Model* model) { return lies_on_cpu(*model) || model->other_parts(); })) {
    return torch::full({}, clip_gradients(models, max_norm, norm_type), torch::kFloat64);
  }
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  close(models, max_norm, norm_type);
  std::vector<torch::Tensor> sums;
  for (engine::Model* model : models) sums.push_back(words_of_all_ranks(*model, norm_type));
  const torch::Tensor norm = norm_of_words(add_norm_words(sums), norm_type), factor = factor_of(norm, max_norm);
  for (engine::Model* model : models) {
    model->scale_gradients(factor);
    if (std::isinf(max_norm)) model->scale_now();  // usually by 1; users may read the bytes
  }
  return norm;
}

}  // namespace fsdp::optim
