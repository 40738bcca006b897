#include "optim/clip.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"
#include "memory/mapped_tensor.h"
#include "optim/device_norm.h"
#include "optim/norm.h"

namespace fsdp::optim {

namespace {

constexpr double kNotZero = 1e-6;  // as torch.nn.utils.clip_grad_norm_

bool lies_on_cpu(const engine::Model& model) {
  const auto& parameters = model.parameters();
  return parameters.empty() || parameters[0].piece.is_cpu();
}

// The norm of the gradients times their factors, part by part, so that each part is read while it is in a cache.
NormSum own_norm(engine::Model& model, double norm_type) {
  const engine::GradientFactors factors = model.gradient_factors_for_use();
  NormSum norm(norm_type);
  const auto add = [&](const torch::Tensor& gradient) {
    if (!gradient.defined()) return;
    for (const torch::Tensor& part : interpose::plain(gradient).split(int64_t{1 << 17} * at::get_num_threads())) {
      const torch::Tensor scaled = factors.times({part})[0];
      norm.add({scaled.const_data_ptr<float>(), static_cast<size_t>(scaled.numel())});
    }
  };
  const auto& units = model.units();
  const auto others = model.other_parts();
  for (size_t id = 0; id < units.size(); ++id) {
    if (id + 1 < units.size()) memory::read_ahead(units[id + 1]->sum.values());
    const engine::ShardedUnit& unit = *units[id];
    for (size_t i = 0; i < unit.parameters.size(); ++i) {
      if (others && others->counted_elsewhere(unit.parameters[i].tensor())) continue;
      add(interpose::gradient_of(model.parameters()[unit.first_piece + i].piece));
    }
    memory::put_away(unit.sum.values());
  }
  return norm;
}

// norm_words of the gradients times their factors.
torch::Tensor own_norm_words(engine::Model& model, double norm_type) {
  std::vector<torch::Tensor> gradients;
  const auto others = model.other_parts();
  for (const auto& unit : model.units()) {
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      if (others && others->counted_elsewhere(unit->parameters[i].tensor())) continue;
      const torch::Tensor& gradient = interpose::gradient_of(model.parameters()[unit->first_piece + i].piece);
      if (gradient.defined()) gradients.push_back(interpose::plain(gradient));
    }
  }
  // This rank may have none where others do.
  if (gradients.empty()) gradients.push_back(torch::empty({0}, model.parameters()[0].piece.options()));
  return norm_words(model.gradient_factors_for_use().times(std::move(gradients)), norm_type);
}

NormSum::Words on_host(const torch::Tensor& words) {
  const torch::Tensor here = words.cpu();
  NormSum::Words values;
  std::copy_n(here.const_data_ptr<int64_t>(), values.size(), values.begin());
  return values;
}

torch::Tensor as_tensor(const NormSum::Words& words) {
  torch::Tensor message = torch::empty({NormSum::kWords}, torch::kInt64);
  std::ranges::copy(words, message.mutable_data_ptr<int64_t>());
  return message;
}

NormSum norm_of_all_ranks(engine::Model& model, double norm_type) {
  const NormSum::Words own =
      lies_on_cpu(model) ? own_norm(model, norm_type).words() : on_host(own_norm_words(model, norm_type));
  NormSum all(norm_type);
  if (model.shards() == 1) {
    all.add(own);
    return all;
  }
  const auto messages = model.group().all_gather(as_tensor(own));
  // The first shard group holds the whole model once.
  for (int rank = 0; rank < model.shards(); ++rank) all.add(on_host(messages[rank]));
  return all;
}

// Adds the sums of the models' other parts, of which there is one set.
NormSum over_all_parts(std::span<engine::Model* const> models, const NormSum& own, double norm_type) {
  std::shared_ptr<engine::OtherParts> others;
  for (const engine::Model* model : models) {
    if (!others) others = model->other_parts();
  }
  if (!others) return own;
  NormSum all(norm_type);
  for (const torch::Tensor& words : others->all_gather(as_tensor(own.words()))) all.add(on_host(words));
  return all;
}

torch::Tensor words_of_all_ranks(engine::Model& model, double norm_type) {
  const torch::Tensor own = own_norm_words(model, norm_type);
  if (model.shards() == 1) return own;
  std::vector<torch::Tensor> all = model.group().all_gather(own);
  all.resize(model.shards());
  return add_norm_words(all);
}

void close(std::span<engine::Model* const> models, double max_norm, double norm_type) {
  FSDP_CHECK(norm_type > 0, "clip_grad_norm_: found norm_type {}, expected a positive number or infinity", norm_type);
  FSDP_CHECK(max_norm >= 0, "clip_grad_norm_: found max_norm {}, expected 0 or more", max_norm);
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
    for (engine::Model* model : models) model->scale_gradients(static_cast<float>(factor));
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
