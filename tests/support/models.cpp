#include "support/models.h"

namespace fsdp::testing_models {

namespace {

constexpr int64_t kVocabulary = 61, kContext = 12, kBatch = 3;

torch::Generator generator_for(int64_t micro_batch) {
  return torch::make_generator<at::CPUGeneratorImpl>(1000 + micro_batch);
}

torch::Device device_of_data = torch::kCPU;

torch::Tensor tokens_for(int64_t micro_batch) {
  return torch::randint(0, kVocabulary, {kBatch, kContext + 1}, generator_for(micro_batch), torch::kInt64)
      .to(device_of_data);
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width)
      : first(register_module("first", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        qkv(register_module("qkv", torch::nn::Linear(width, 3 * width))),
        project(register_module("project", torch::nn::Linear(width, width))),
        second(register_module("second", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}

  torch::Tensor forward(torch::Tensor x) {
    auto parts = qkv(first(x)).chunk(3, -1);
    auto heads = [&](const torch::Tensor& part) { return part.view({x.size(0), x.size(1), 4, -1}).transpose(1, 2); };
    auto mixed = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0, true);
    x = x + project(mixed.transpose(1, 2).reshape(x.sizes()));
    return x + down(torch::gelu(up(second(x)), "tanh"));
  }

  torch::nn::LayerNorm first;
  torch::nn::Linear qkv, project;
  torch::nn::LayerNorm second;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

struct GptImpl : torch::nn::Module {
  GptImpl(int64_t count, int64_t width)
      : tokens(register_module("tokens", torch::nn::Embedding(kVocabulary, width))),
        positions(register_module("positions", torch::nn::Embedding(kContext, width))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))) {
    for (int64_t i = 0; i < count; ++i) blocks->push_back(Block(width));
  }

  torch::Tensor forward(const torch::Tensor& ids) {
    auto x = tokens(ids) + positions(torch::arange(ids.size(1), ids.device()));
    for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x);
    return torch::linear(norm(x), tokens->weight);
  }

  torch::nn::Embedding tokens, positions;
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm;
};
TORCH_MODULE(Gpt);

TestModel make_encoder() {
  torch::manual_seed(2);
  auto layer = torch::nn::TransformerEncoderLayer(
      torch::nn::TransformerEncoderLayerOptions(24, 3).dim_feedforward(40).dropout(0));
  auto model = std::make_shared<torch::nn::TransformerEncoderImpl>(torch::nn::TransformerEncoderOptions(layer, 3));
  return {model, [model](int64_t b) { return model->forward(values_for(b, {7, kBatch, 24})).pow(2).mean(); }};
}

struct StageImpl : torch::nn::Module {
  StageImpl(int64_t in, int64_t out)
      : convolution(register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(out))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(norm(convolution(x))); }

  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
};
TORCH_MODULE(Stage);

struct ConvolutionsImpl : torch::nn::Module {
  ConvolutionsImpl()
      : stages(register_module("stages", torch::nn::Sequential(Stage(3, 8), Stage(8, 13), Stage(13, 8)))),
        head(register_module("head", torch::nn::Linear(8 * 36, 5))) {}
  torch::Tensor forward(const torch::Tensor& x) { return head(stages->forward(x).flatten(1)); }

  torch::nn::Sequential stages;
  torch::nn::Linear head;
};

TestModel make_convolutions() {
  torch::manual_seed(3);
  auto model = std::make_shared<ConvolutionsImpl>();
  return {model, [model](int64_t b) {
            auto scores = model->forward(values_for(b, {4, 3, 6, 6}));
            return torch::cross_entropy_loss(scores, torch::tensor({0, 1, 2, 3}, data_device()));
          }};
}

TestModel make_lstm() {
  torch::manual_seed(4);
  auto model = std::make_shared<torch::nn::LSTMImpl>(torch::nn::LSTMOptions(10, 17).num_layers(2).bidirectional(true));
  return {model, [model](int64_t b) {
            return std::get<0>(model->forward(values_for(b, {5, kBatch, 10}))).pow(2).mean();
          }};
}

}  // namespace

torch::Device data_device() { return device_of_data; }
OnDevice::OnDevice(torch::Device device) { device_of_data = device; }
OnDevice::~OnDevice() { device_of_data = torch::kCPU; }

torch::Tensor values_for(int64_t micro_batch, at::IntArrayRef sizes) {
  return torch::randn(sizes, generator_for(micro_batch)).to(device_of_data);
}

TestModel make_gpt(int64_t blocks, int64_t width) {
  torch::manual_seed(1);
  Gpt model(blocks, width);
  return {model.ptr(), [model](int64_t b) mutable {
            auto tokens = tokens_for(b);
            auto scores = model->forward(tokens.slice(1, 0, kContext));
            return torch::cross_entropy_loss(scores.view({-1, kVocabulary}), tokens.slice(1, 1).reshape({-1}));
          }};
}

std::vector<ModelKind> model_kinds() {
  return {{"gpt", [] { return make_gpt(); }},
          {"encoder", make_encoder},
          {"convolutions", make_convolutions},
          {"lstm", make_lstm}};
}

}  // namespace fsdp::testing_models
