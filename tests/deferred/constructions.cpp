#include "deferred/constructions.h"

#include <ATen/CPUGeneratorImpl.h>

namespace fsdp::testing_models {

namespace {

namespace nn = torch::nn;

// All that `Parts` are, under the names 0, 1, ...
template <typename... Modules>
std::shared_ptr<nn::Module> all_of(const Modules&... modules) {
  auto all = std::make_shared<nn::Module>();
  int number = 0;
  (all->register_module(std::to_string(number++), modules.ptr()), ...);
  return all;
}

std::shared_ptr<nn::Module> make_layers() {
  return all_of(nn::Linear(7, 5), nn::LayerNorm(nn::LayerNormOptions({5})), nn::GroupNorm(nn::GroupNormOptions(2, 4)),
                nn::Embedding(nn::EmbeddingOptions(11, 6).padding_idx(3)), nn::EmbeddingBag(9, 4),
                nn::Bilinear(3, 4, 5), nn::PReLU(), nn::Conv2d(3, 4, 3), nn::ConvTranspose1d(3, 4, 3),
                nn::BatchNorm2d(6), nn::MultiheadAttention(8, 2));
}

std::shared_ptr<nn::Module> make_transformers() {
  const auto layer = nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(24));
  return all_of(nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, 3)),
                nn::Transformer(nn::TransformerOptions(8, 2, 1, 1)));
}

std::shared_ptr<nn::Module> make_recurrent() {
  return all_of(nn::LSTM(nn::LSTMOptions(5, 6).bidirectional(true).num_layers(2)), nn::GRU(4, 3), nn::RNNCell(3, 4));
}

struct Initialised : nn::Module {
  Initialised() {
    const auto add = [&](const char* name, std::vector<int64_t> sizes) {
      return register_parameter(name, torch::empty(sizes));
    };
    nn::init::orthogonal_(add("wide", {4, 9}));
    nn::init::orthogonal_(add("tall", {9, 4}), 1.5);
    nn::init::eye_(add("eye", {5, 5}));
    nn::init::dirac_(add("dirac", {4, 4, 3}));
    nn::init::sparse_(add("sparse", {12, 5}), 0.4);
    nn::init::xavier_normal_(add("xavier", {6, 7}));
    torch::NoGradGuard no_grad;
    add("channels_last", {2, 3, 4, 5})
        .set_data(torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast));
    add("short", {7}).normal_();  // fewer numbers than a vector's
    add("bernoulli", {50}).bernoulli_(0.3);
    add("bf16", {33}).set_data(torch::randn({33}).to(torch::kBFloat16));
    add("choice", {40}).copy_(torch::multinomial(torch::rand({60}), 40).to(torch::kFloat32));
  }
};

// As GPT-2's scripts do: once all is constructed, by a walk over it.
struct InitialisedAgain : nn::Module {
  InitialisedAgain() {
    auto blocks = register_module("blocks", nn::ModuleList());
    for (int i = 0; i < 3; ++i)
      blocks->push_back(nn::Sequential(nn::Linear(8, 8), nn::LayerNorm(nn::LayerNormOptions({8}))));
    register_module("embedding", nn::Embedding(nn::EmbeddingOptions(20, 8).padding_idx(0)));
    apply([](nn::Module& module) {
      torch::NoGradGuard no_grad;
      if (auto* linear = module.as<nn::Linear>()) {
        linear->weight.normal_(0, 0.02);
        linear->bias.zero_();
      }
      if (auto* embedding = module.as<nn::Embedding>()) embedding->weight.mul_(0.5).add_(torch::randn({20, 8}));
    });
    for (auto& parameter : parameters()) parameter.data().mul_(1.25);
  }
};

struct Computed : nn::Module {
  Computed() {
    const auto positions = torch::arange(16).unsqueeze(1).to(torch::kFloat32);
    const auto divisors = torch::exp(torch::arange(0, 32, 2).to(torch::kFloat32) * -0.28);
    auto table = torch::zeros({16, 32});
    table.slice(1, 0, 32, 2).copy_(torch::sin(positions * divisors));
    table.slice(1, 1, 32, 2).copy_(torch::cos(positions * divisors));
    register_buffer("positions", table.unsqueeze(1));
    register_buffer("mask", torch::ones({6, 6}).tril());
    register_parameter("sum", torch::randn({8}) * 0.1 + torch::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f}));
    const std::vector<float> numbers{1, 2, 3};
    register_parameter("literal", torch::tensor(numbers));
    register_parameter("scaled_literal", torch::tensor(numbers).mul_(2) * torch::rand({3}));
    std::vector<float> bytes{4, 5, 6};
    register_parameter("from_blob", torch::from_blob(bytes.data(), {3}).clone() + torch::zeros({3}));
    register_buffer("halves", torch::randint(0, 5, {4}) * 0.5);
    register_buffer("number", torch::rand({}) * 3.0);
    register_parameter("product", torch::mm(torch::randn({4, 5}), torch::randn({5, 6})));
    register_parameter("normalised", torch::softmax(torch::randn({4, 5}), -1));
  }
};

// Constructors that ask their tensors for values, and go on with them.
struct Reading : nn::Module {
  Reading() {
    const torch::Tensor drawn = torch::rand({3});
    register_parameter("scaled", torch::ones({3}) * drawn.sum().item<float>());
    const auto count = torch::randint(2, 9, {1}).item<int64_t>();
    register_parameter("as_many", torch::randn({count}));
    auto weight = register_parameter("weight", torch::empty({6, 6}));
    nn::init::normal_(weight);
    torch::NoGradGuard no_grad;
    weight.div_(weight.norm().item<float>());
    register_buffer("positive", weight.masked_select(weight > 0));
    register_buffer("copied", torch::tensor({0.f, 0.f}).copy_(drawn.slice(0, 0, 2)));
  }
};

struct Tied : nn::Module {
  Tied() {
    auto first = register_module("first", nn::Linear(6, 6));
    register_module("between", nn::Linear(6, 6));
    const torch::Tensor head = register_parameter("head", first->weight);
    register_buffer("row", torch::zeros({4}));
    torch::NoGradGuard no_grad;
    head.mul_(0.5);
  }
};

struct SeededInside : nn::Module {
  SeededInside() {
    register_module("before", nn::Linear(4, 4));
    torch::manual_seed(99);
    register_module("between", nn::Linear(4, 4));
    torch::manual_seed(99);
    register_module("after", nn::Linear(4, 4));
  }
};

bool same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::equal(a.contiguous().view({-1}).view(torch::kByte), b.contiguous().view({-1}).view(torch::kByte));
}

}  // namespace

std::vector<Construction> constructions() {
  return {{"Layers", make_layers},
          {"Transformers", make_transformers},
          {"Recurrent", make_recurrent},
          {"Initialised", [] { return std::make_shared<Initialised>(); }},
          {"InitialisedAgain", [] { return std::make_shared<InitialisedAgain>(); }},
          {"Computed", [] { return std::make_shared<Computed>(); }},
          {"Reading", [] { return std::make_shared<Reading>(); }},
          {"Tied", [] { return std::make_shared<Tied>(); }},
          {"SeededInside", [] { return std::make_shared<SeededInside>(); }}};
}

NamedState state_of(const torch::nn::Module& module) {
  NamedState state;
  for (const auto& [name, child] : module.named_modules().pairs()) {
    for (const auto& parameter : child->named_parameters(/*recurse=*/false)) {
      state.emplace_back(name + "." + parameter.key(), parameter.value());
    }
    for (const auto& buffer : child->named_buffers(/*recurse=*/false)) {
      state.emplace_back(name + "." + buffer.key(), buffer.value());
    }
  }
  return state;
}

torch::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

std::vector<std::string> differing(const NamedState& expected, const NamedState& found) {
  if (expected.size() != found.size()) return {"the number of tensors"};
  torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, a] = expected[i];
    const auto& [other, b] = found[i];
    const bool alike = name == other && a.sizes() == b.sizes() && a.strides() == b.strides() &&
                       a.dtype() == b.dtype() && a.requires_grad() == b.requires_grad() && a.is_leaf() == b.is_leaf() &&
                       same_bytes(a, b);
    if (!alike) names.push_back(name);
  }
  return names;
}

}  // namespace fsdp::testing_models
