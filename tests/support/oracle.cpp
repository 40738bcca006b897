#include "support/oracle.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_set>
#include <utility>

#include "optim/block8.h"
#include "optim/norm.h"

namespace fsdp::testing_models {

namespace {

using Tensors = std::vector<torch::Tensor>;

void scale(const Tensors& gradients, float factor) {
  for (const auto& gradient : gradients) {
    if (gradient.defined()) gradient.mul_(factor);
  }
}

// In the order of the elements in memory, which channels-last changes.
std::span<const float> elements_of(const torch::Tensor& gradient) {
  return {gradient.const_data_ptr<float>(), size_t(gradient.numel())};
}

double clip(const Tensors& gradients, double max_norm, double norm_type) {
  optim::NormSum sum(norm_type);
  for (const auto& gradient : gradients) {
    if (!gradient.defined()) continue;
    const torch::Tensor values = gradient.cpu();
    sum.add(elements_of(values));
  }
  const double norm = sum.norm(), factor = max_norm / (norm + 1e-6);
  if (factor < 1) scale(gradients, static_cast<float>(factor));
  return norm;
}

// An undefined gradient adds nothing. The sum is made like `like`.
void add_to(torch::Tensor& sum, const torch::Tensor& gradient, const torch::Tensor& like) {
  if (!gradient.defined()) return;
  if (sum.defined()) {
    sum.add_(gradient);
  } else {
    sum = torch::empty_like(like).copy_(gradient);
  }
}

// The module runs in copies of other dtypes while this lives. Afterwards it has its fp32 values again, except for
// elements of the copies whose bits the module changed.
class Converted {
 public:
  Converted(const Weights& weights, const std::vector<torch::ScalarType>& dtypes) {
    for (size_t i = 0; i < weights.size(); ++i) {
      const torch::Tensor& weight = weights[i].second;
      if (dtypes[i] == weight.scalar_type()) continue;
      masters_.emplace_back(weight, weight.detach());
      weight.set_data(weight.detach().to(dtypes[i]));
    }
  }
  ~Converted() {
    torch::NoGradGuard no_grad;
    for (auto& [weight, master] : masters_) {
      weight.mutable_grad().reset();
      const torch::Tensor before = master.to(weight.scalar_type());
      const torch::Tensor same = before.view(torch::kInt16) == weight.detach().view(torch::kInt16);
      master.copy_(torch::where(same, master, weight.detach().to(master.scalar_type())));
      weight.set_data(master);
    }
  }
  Converted(const Converted&) = delete;

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> masters_;
};

}  // namespace

namespace {

// In the order of its memory.
torch::Tensor flat(const torch::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

template <typename Code>
struct Blocks {
  explicit Blocks(const torch::Tensor& state) : values(flat(state)) {
    each([&](float* block, size_t numel, Code* to, float* scale) {
      *scale = optim::block8_pack(std::span<const float>(block, numel), to);
    });
  }
  void unpack() {
    each([&](float* block, size_t numel, Code* from, float* scale) {
      optim::block8_unpack(std::span<const Code>(from, numel), *scale, block);
    });
  }
  template <typename Visit>
  void each(const Visit& visit) {
    for (int64_t first = 0; first < values.numel(); first += optim::kBlock8Numel) {
      const int64_t numel = std::min(optim::kBlock8Numel, values.numel() - first);
      visit(values.data_ptr<float>() + first, static_cast<size_t>(numel), codes.data_ptr<Code>() + first,
            scales.data_ptr<float>() + first / optim::kBlock8Numel);
    }
  }

  torch::Tensor values;
  torch::Tensor codes = torch::zeros({values.numel()}, c10::CppTypeToScalarType<Code>::value);
  torch::Tensor scales = torch::zeros({values.numel() / optim::kBlock8Numel + 1});
};

}  // namespace

void step_in_blocks(const torch::Tensor& parameter, const torch::Tensor& gradient, const torch::Tensor& first,
                    const torch::Tensor& second, const torch::Tensor& steps, const optim::Settings& with,
                    optim::WeightDecay decay, bool maximize) {
  Blocks<int8_t> firsts(first);
  Blocks<uint8_t> seconds(second);
  optim::update_block8({.pieces = {flat(parameter)},
                        .gradients = {flat(gradient)},
                        .steps = {steps},
                        .states = {{firsts.codes}, {firsts.scales}, {seconds.codes}, {seconds.scales}}},
                       with, decay, maximize);
  firsts.unpack();
  seconds.unpack();
}

void keep_as(const optim::StateFormat& format, const torch::Tensor& state) {
  if (format.pack == nullptr) return;
  torch::Tensor flat = state.as_strided({state.numel()}, {1});
  Tensors kept;
  for (const auto& tensor : format.tensors) {
    kept.push_back(torch::zeros({tensor.numel_for(flat.numel())}, torch::TensorOptions(tensor.type)));
  }
  format.pack(flat, kept);
  format.unpack(kept, flat);
}

Unsharded::Unsharded(std::shared_ptr<torch::nn::Module> module, const Training& training)
    : module_(std::move(module)), training_(training) {
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& parameter : module_->named_parameters()) {
    const torch::Tensor& weight = parameter.value();
    if (!weight.defined() || !seen.insert(weight.unsafeGetTensorImpl()).second) continue;
    dtypes_.push_back(training.param_dtype.value_or(weight.scalar_type()));
    weight.set_data(weight.detach().to(torch::kFloat32));
    weights_.emplace_back(parameter.key(), weight);
    first_moments_.push_back(torch::zeros_like(weight).detach());
    second_moments_.push_back(torch::zeros_like(weight).detach());
    step_counts_.push_back(torch::zeros({}, weight.device()));
  }
  sum_.resize(weights_.size());
  if (!training.param_dtype) return;
  for (const auto& buffer : module_->buffers()) {
    if (buffer.is_floating_point()) buffer.set_data(buffer.to(*training.param_dtype));
  }
}

void Unsharded::add(const std::function<torch::Tensor()>& loss) {
  for (const auto& weight : weights_) weight.second.mutable_grad().reset();
  const Converted converted(weights_, dtypes_);
  loss().backward();
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) add_to(sum_[i], weights_[i].second.grad(), first_moments_[i]);
}

double Unsharded::step(double loss_scale) {
  torch::NoGradGuard no_grad;
  scale(sum_, static_cast<float>(1.0 / static_cast<double>(training_.micro_batches)));
  scale(sum_, static_cast<float>(1.0 / loss_scale));
  const double norm = training_.clip > 0 ? clip(sum_, training_.clip, training_.clip_norm_type) : 0;
  Tensors parameters, gradients, first, second, counts;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!sum_[i].defined()) continue;
    step_counts_[i].add_(1);
    parameters.push_back(weights_[i].second);
    gradients.push_back(std::exchange(sum_[i], {}));
    first.push_back(first_moments_[i]);
    second.push_back(second_moments_[i]);
    counts.push_back(step_counts_[i]);
  }
  if (training_.state_dtype == StateDtype::Block8) {
    const optim::Settings with{
        .patterns = {}, .lr = training_.lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2};
    for (size_t i = 0; i < parameters.size(); ++i) {
      step_in_blocks(parameters[i], gradients[i], first[i], second[i], counts[i], with, optim::WeightDecay::Decoupled);
    }
    return norm;
  }
  at::_fused_adamw_(parameters, gradients, first, second, {}, counts, training_.lr, 0.9, 0.999, 1e-2, 1e-8, false,
                    false);
  const auto moments = optim::adam_moments(training_.state_dtype);
  for (const auto& moment : first) keep_as(*moments[0].format, moment);
  for (const auto& moment : second) keep_as(*moments[1].format, moment);
  return norm;
}

Weights train_unsharded(const TestModel& model, const Training& training) {
  Unsharded unsharded(model.module, training);
  for (int64_t step = 0; step < training.steps; ++step) {
    for (int64_t b = 0; b < training.micro_batches; ++b) {
      unsharded.add([&] { return model.loss(step * training.micro_batches + b); });
    }
    unsharded.step();
  }
  Weights weights = unsharded.weights();
  for (auto& weight : weights) weight.second = weight.second.detach().clone().cpu();
  return weights;
}

std::vector<std::string> differences(const Weights& expected, const Weights& found) {
  std::vector<std::string> names;
  if (expected.size() != found.size()) return {"the number of weights"};
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].second.contiguous(), b = found[i].second.contiguous();
    const bool same = expected[i].first == found[i].first && a.sizes() == b.sizes() &&
                      (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
    if (!same) names.push_back(expected[i].first);
  }
  return names;
}

}  // namespace fsdp::testing_models
