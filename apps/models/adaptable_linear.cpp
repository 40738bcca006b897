#include "models/adaptable_linear.h"

namespace models {

namespace nn = torch::nn;

void AdaptableLinearImpl::add_adapter(const Lora& lora) {
  const int64_t in = weight.size(1), out = weight.size(0);
  lora_A_ = register_module("lora_A", nn::Linear(nn::LinearOptions(in, lora.rank).bias(false)));
  lora_B_ = register_module("lora_B", nn::Linear(nn::LinearOptions(lora.rank, out).bias(false)));
  torch::NoGradGuard no_grad;
  lora_B_->weight.zero_();
  scale_ = lora.scale();
  dropout_ = lora.dropout;
}

torch::Tensor AdaptableLinearImpl::forward(const torch::Tensor& input) {
  const torch::Tensor output = nn::LinearImpl::forward(input);
  if (!lora_A_) return output;
  return output + lora_B_(lora_A_(torch::dropout(input, dropout_, is_training()))) * scale_;
}

}  // namespace models
