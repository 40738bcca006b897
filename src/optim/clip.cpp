#include "optim/clip.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "base/error.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"
#include "memory/mapped_tensor.h"
#include "optim/device_norm.h"
#include "optim/norm.h"

namespace fsdp::optim {

namespace {

// Of the gradients times their factors, a part at a time, which is read while it is in a cache.
NormSum own_norm(engine::Model& model, double norm_type) {
  const engine::GradientFactors factors = model.gradient_factors_for_use();
  NormSum norm(norm_type);
  std::vector<torch::Tensor> elsewhere;
  const auto add = [&](const torch::Tensor& gradient) {
    if (!gradient.defined()) return;
    if (!gradient.is_cpu()) return elsewhere.push_back(factors.times({gradient})[0]);
    for (const torch::Tensor& part : interpose::plain(gradient).split(int64_t{1 << 17} * at::get_num_threads())) {
      const torch::Tensor scaled = factors.times({part})[0];
      norm.add({scaled.const_data_ptr<float>(), static_cast<size_t>(scaled.numel())});
    }
  };
  const auto& units = model.units();
  for (size_t id = 0; id < units.size(); ++id) {
    if (id + 1 < units.size()) memory::read_ahead(units[id + 1]->sum.values());
    const engine::ShardedUnit& unit = *units[id];
    for (size_t i = 0; i < unit.parameters.size(); ++i) {
      add(interpose::gradient_of(model.parameters()[unit.first_piece + i].piece));
    }
    memory::put_away(unit.sum.values());
  }
  if (!elsewhere.empty()) norm.add(norm_on_device(elsewhere, norm_type));
  return norm;
}

NormSum norm_of_all_ranks(engine::Model& model, NormSum own, double norm_type) {
  if (model.shards() == 1) return own;
  // Limbs, then what no limb can hold, in the bits of int64.
  torch::Tensor message = torch::empty({ExactSum::kLimbs + 2}, torch::kInt64);
  auto* words = message.mutable_data_ptr<int64_t>();
  std::copy(own.sum().limbs().begin(), own.sum().limbs().end(), words);
  words[ExactSum::kLimbs] = std::bit_cast<int64_t>(own.sum().special());
  words[ExactSum::kLimbs + 1] = std::bit_cast<int64_t>(own.largest());
  NormSum all(norm_type);
  const auto messages = model.group().all_gather(message);
  // The first shard group holds the whole model once.
  for (int rank = 0; rank < model.shards(); ++rank) {
    const auto* received = messages[rank].const_data_ptr<int64_t>();
    ExactSum::Limbs limbs;
    std::copy_n(received, ExactSum::kLimbs, limbs.begin());
    NormSum part(norm_type);
    part.sum() = ExactSum::from(limbs, std::bit_cast<double>(received[ExactSum::kLimbs]));
    part.largest() = std::bit_cast<double>(received[ExactSum::kLimbs + 1]);
    all.add(part);
  }
  return all;
}

}  // namespace

double clip_gradients(std::span<engine::Model* const> models, double max_norm, double norm_type) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  FSDP_CHECK(norm_type > 0, "clip_grad_norm_: found norm_type {}, expected a positive number or infinity", norm_type);
  FSDP_CHECK(max_norm >= 0, "clip_grad_norm_: found max_norm {}, expected 0 or more", max_norm);
  for (engine::Model* model : models) model->check_parameters("clip_grad_norm_");
  for (engine::Model* model : models) model->close_gradients("clip_grad_norm_");
  NormSum sum(norm_type);  // exact, so that neither the models' order nor their ranks show
  for (engine::Model* model : models) sum.add(norm_of_all_ranks(*model, own_norm(*model, norm_type), norm_type));
  const double norm = sum.norm(), factor = max_norm / (norm + 1e-6);  // as torch.nn.utils.clip_grad_norm_
  if (!(factor >= 1.0)) {
    for (engine::Model* model : models) model->scale_gradients(static_cast<float>(factor));
  }
  return norm;
}

}  // namespace fsdp::optim
