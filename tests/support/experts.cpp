#include "support/experts.h"

namespace fsdp::testing_models {

using torch::Tensor;

namespace {

constexpr int64_t kExpertWidth = 12, kExperts = 4, kTokens = 3;  // a batch leaves an expert of each block out

// Of the batch's tokens, each is seen by the expert that the gate prefers (Fedus and others,
// https://arxiv.org/abs/2101.03961); an expert that no token prefers is not called.
struct ExpertsImpl : torch::nn::Module {
  ExpertsImpl()
      : gate(register_module("gate", torch::nn::Linear(kExpertWidth, kExperts))),
        experts(register_module("experts", torch::nn::ModuleList())) {
    for (int64_t i = 0; i < kExperts; ++i) experts->push_back(torch::nn::Linear(kExpertWidth, kExpertWidth));
  }

  // [tokens]
  Tensor choice(const Tensor& x) { return gate(x).argmax(-1); }

  Tensor forward(const Tensor& x) {
    const Tensor weights = torch::softmax(gate(x), -1), chosen = weights.argmax(-1);
    Tensor result = x;
    for (int64_t i = 0; i < kExperts; ++i) {
      const Tensor tokens = torch::nonzero(chosen == i).view(-1);
      if (tokens.numel() == 0) continue;
      const Tensor seen = torch::tanh(experts->at<torch::nn::LinearImpl>(i).forward(x.index_select(0, tokens)));
      result = result.index_add(0, tokens, seen * weights.index_select(0, tokens).select(1, i).unsqueeze(1));
    }
    return result;
  }

  torch::nn::Linear gate;
  torch::nn::ModuleList experts;
};
TORCH_MODULE(Experts);

Tensor batch(int64_t b) { return values_for(b, {kTokens, kExpertWidth}); }

torch::nn::Sequential make_blocks() {
  torch::manual_seed(14);
  torch::nn::Sequential blocks;
  for (int64_t i = 0; i < kExpertBlocks; ++i) blocks->push_back(Experts());
  return blocks;
}

}  // namespace

TestModel make_experts() {
  auto blocks = make_blocks();
  return {blocks.ptr(), [blocks](int64_t b) mutable { return blocks->forward(batch(b)).pow(2).mean(); }};
}

std::set<int64_t> chosen_experts(int64_t micro_batch) {
  auto blocks = make_blocks();
  const Tensor chosen = blocks->at<ExpertsImpl>(0).choice(batch(micro_batch));
  return {chosen.data_ptr<int64_t>(), chosen.data_ptr<int64_t>() + chosen.numel()};
}

}  // namespace fsdp::testing_models
