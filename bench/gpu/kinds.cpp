#include "kinds.h"

#include <utility>

namespace gpu {

namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kWidth = 64, kTokens = 97, kLength = 12, kBatch = 8;

torch::Device device_of(const nn::Module& model) { return model.parameters().front().device(); }

at::Generator random_of(int64_t micro_batch) {
  return at::detail::createCPUGenerator(static_cast<uint64_t>(micro_batch + 1));
}

Tensor random_tokens(at::Generator random, const torch::Device& device) {
  return torch::randint(0, kTokens, {kBatch, kLength}, std::move(random), torch::dtype(torch::kLong)).to(device);
}

// The model's class stays in this file: a kind has its module alone.
template <typename Model>
Kind kind(const char* name) {
  const auto loss = [](nn::Module& module, int64_t micro_batch) {
    return dynamic_cast<Model&>(module).loss(random_of(micro_batch));
  };
  return {name, [] { return std::make_shared<Model>(); }, loss};
}

// Layers of an encoder and of a decoder that looks at it, with one embedding for both and for the output.
struct Translator : nn::Module {
  Tensor loss(at::Generator random) {
    const torch::Device device = device_of(*this);
    const Tensor source = random_tokens(random, device), target = random_tokens(random, device);
    const Tensor memory = encoder(embedding(source).transpose(0, 1));
    const Tensor decoded = decoder(embedding(target).transpose(0, 1), memory).transpose(0, 1);
    const Tensor logits = torch::linear(decoded, embedding->weight);
    return nn::functional::cross_entropy(logits.flatten(0, 1), target.roll(-1, 1).flatten());
  }

  nn::Embedding embedding = register_module("embedding", nn::Embedding(kTokens, kWidth));
  nn::TransformerEncoder encoder = register_module(
      "encoder",
      nn::TransformerEncoder(
          nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(128).dropout(0)),
          2));
  nn::TransformerDecoder decoder = register_module(
      "decoder",
      nn::TransformerDecoder(
          nn::TransformerDecoderLayer(nn::TransformerDecoderLayerOptions(kWidth, 4).dim_feedforward(128).dropout(0)),
          2));
};

// Convolutions over a signal, and a GRU over what they find.
struct Listener : nn::Module {
  Tensor loss(at::Generator random) {
    const Tensor signal = torch::randn({kBatch, 1, 64}, std::move(random)).to(device_of(*this));
    const Tensor found = torch::relu(second(torch::relu(first(signal))));
    const Tensor heard = std::get<0>(gru(found.transpose(1, 2)));
    return (out(heard.select(1, -1)).squeeze(1) - signal.mean({1, 2})).square().mean();
  }

  nn::Conv1d first = register_module("first", nn::Conv1d(nn::Conv1dOptions(1, 16, 5).stride(2).padding(2)));
  nn::Conv1d second = register_module("second", nn::Conv1d(nn::Conv1dOptions(16, kWidth, 5).stride(2).padding(2)));
  nn::GRU gru = register_module("gru", nn::GRU(nn::GRUOptions(kWidth, kWidth).batch_first(true)));
  nn::Linear out = register_module("out", nn::Linear(kWidth, 1));
};

// Each token goes to one of four experts: ranks with other tokens use other experts.
struct Experts : nn::Module {
  Experts() {
    for (int i = 0; i < 4; ++i)
      experts->push_back(nn::Sequential(nn::Linear(kWidth, 128), nn::GELU(), nn::Linear(128, kWidth)));
  }
  Tensor loss(at::Generator random) {
    const Tensor tokens = random_tokens(std::move(random), device_of(*this)).flatten();
    const Tensor x = embedding(tokens), chances = torch::softmax(gate(x), 1);
    const auto [best, choice] = chances.max(1);
    Tensor mixed = x;
    for (int64_t i = 0; i < static_cast<int64_t>(experts->size()); ++i) {
      const Tensor own = torch::nonzero(choice == i).squeeze(1);
      if (own.numel() == 0) continue;
      const Tensor made = experts->at<nn::SequentialImpl>(i).forward(x.index_select(0, own));
      mixed = mixed.index_add(0, own, made * best.index_select(0, own).unsqueeze(1));
    }
    return nn::functional::cross_entropy(out(mixed), tokens.roll(-1));
  }

  nn::Embedding embedding = register_module("embedding", nn::Embedding(kTokens, kWidth));
  nn::Linear gate = register_module("gate", nn::Linear(kWidth, 4));
  nn::ModuleList experts = register_module("experts", nn::ModuleList());
  nn::Linear out = register_module("out", nn::Linear(kWidth, kTokens));
};

// A frozen model with small matrices beside its layers, which alone are trained.
struct AdaptedLayer : nn::Module {
  AdaptedLayer() {
    base->weight.set_requires_grad(false);
    base->bias.set_requires_grad(false);
  }
  Tensor forward(const Tensor& x) { return x + torch::gelu(base(x) + up(down(x))); }

  nn::Linear base = register_module("base", nn::Linear(kWidth, kWidth));
  nn::Linear down = register_module("down", nn::Linear(nn::LinearOptions(kWidth, 4).bias(false)));
  nn::Linear up = register_module("up", nn::Linear(nn::LinearOptions(4, kWidth).bias(false)));
};

struct Adapted : nn::Module {
  Adapted() {
    for (int i = 0; i < 3; ++i) layers->push_back(std::make_shared<AdaptedLayer>());
  }
  Tensor loss(at::Generator random) {
    const Tensor input = torch::randn({32, kWidth}, std::move(random)).to(device_of(*this));
    Tensor x = input;
    for (size_t i = 0; i < layers->size(); ++i) x = layers->at<AdaptedLayer>(i).forward(x);
    return (x - input.roll(1, 1)).square().mean();
  }

  nn::ModuleList layers = register_module("layers", nn::ModuleList());
};

}  // namespace

std::vector<Kind> all_kinds() {
  return {kind<Translator>("encoder and decoder"), kind<Listener>("GRU and convolutions"), kind<Adapted>("adapters"),
          kind<Experts>("experts")};
}

}  // namespace gpu
