#include "property/random_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fsdp::property {

using torch::Tensor;

Tensor Block::forward(const Tensor& input) {
  if (!recomputed) return compute(input);
  return activation_checkpoint(
      *recomputed, [this](const Tensor& x) { return compute(x); }, input);
}

Tensor Block::compute(const Tensor& input) {
  Tensor x = input;
  for (const auto& layer : layers) x = x + torch::tanh(layer->run(x));
  return inner ? inner->forward(x) : x;
}

namespace {

constexpr int64_t kBatch = 2, kLength = 3;

struct Net : torch::nn::Module {
  Tensor forward(const Tensor& tokens_of_batch) {
    Tensor x = tokens->forward(tokens_of_batch);
    for (const auto& call : calls) x = call(x);
    const Tensor& weight = head ? head->weight : tokens->weight;
    x = like(x, weight);
    return head ? head->forward(x) + bias : torch::linear(x, weight, bias);
  }

  std::shared_ptr<torch::nn::EmbeddingImpl> tokens;
  std::vector<std::function<Tensor(const Tensor&)>> calls;
  std::shared_ptr<torch::nn::LinearImpl> head;  // or tied to the embedding
  Tensor bias;                                  // never frozen: every case trains something
};

class Builder {
 public:
  explicit Builder(uint64_t seed) : random_(seed), net_(std::make_shared<Net>()) {}

  RandomModel build() {
    vocabulary_ = random_.between(5, 40);
    width_ = random_.between(2, 20);
    words_ = fmt::format("{} tokens of width {}", vocabulary_, width_);
    net_->tokens = net_->register_module("tokens", torch::nn::Embedding(vocabulary_, width_));
    for (int64_t i = 0, parts = random_.between(1, 4); i < parts; ++i) add_part(fmt::format("part{}", i));
    if (random_.one_in(2)) {
      net_->head = net_->register_module("head", torch::nn::Linear(width_, vocabulary_));
    } else {
      words_ += "; head tied to the embedding";
    }
    net_->bias = net_->register_parameter("bias", torch::zeros({vocabulary_}));
    if (random_.one_in(3)) net_->register_parameter("unused", torch::ones({random_.between(1, 70)}));
    freeze();
    return {{net_, loss()}, words_};
  }

 private:
  std::shared_ptr<Block> make_block(bool may_nest = true) {
    auto block = std::make_shared<Block>();
    std::vector<std::string> layers;
    for (int64_t i = 0, count = random_.between(1, 3); i < count; ++i) {
      auto layer = random_.one_in(5) ? tied_layer(any_weight()) : random_layer(random_, width_);
      block->layers.push_back(block->register_module(fmt::format("layer{}", i), layer));
      const auto parameters = layer->named_parameters();
      if (const Tensor* up = parameters.find("up.weight")) weights_.push_back(*up);
      layers.push_back(layer->description);
    }
    words_ += fmt::format(" ({}", fmt::join(layers, ", "));
    if (may_nest && random_.one_in(4)) {
      words_ += " and inside";
      block->inner = block->register_module("inner", make_sequence());
    }
    words_ += ")";
    return block;
  }

  torch::nn::Sequential make_sequence() {
    torch::nn::Sequential sequence;
    for (int64_t i = 0, count = random_.between(1, 3); i < count; ++i) sequence->push_back(make_block(false));
    return sequence;
  }

  // A matrix of `width_` columns that was there before.
  Tensor any_weight() { return weights_.empty() || random_.one_in(3) ? net_->tokens->weight : random_.among(weights_); }

  void add_part(const std::string& name) {
    switch (random_.between(0, 2)) {
      case 0: {
        words_ += fmt::format("; {}: a block", name);
        auto block = net_->register_module(name, make_block());
        return call([block](const Tensor& x) { return block->forward(x); });
      }
      case 1: {
        words_ += fmt::format("; {}: a sequence of", name);
        auto sequence = net_->register_module(name, make_sequence());
        return call([sequence](const Tensor& x) { return sequence->forward(x); });
      }
      default:
        return add_list(name);
    }
  }

  // Once, twice, or never.
  void call(const std::function<Tensor(const Tensor&)>& forward) {
    const int64_t times = random_.one_in(8) ? 0 : random_.one_in(4) ? 2 : 1;
    if (times != 1) words_ += fmt::format(", called {} times", times);
    for (int64_t i = 0; i < times; ++i) net_->calls.push_back(forward);
  }

  // Blocks that are called in any order: each about once.
  void add_list(const std::string& name) {
    words_ += fmt::format("; {}: a list of", name);
    auto list = net_->register_module(name, torch::nn::ModuleList());
    std::vector<int64_t> order;
    const int64_t count = random_.between(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      list->push_back(make_block());
      order.push_back(random_.one_in(2) ? i : random_.between(0, count - 1));
    }
    for (int64_t i : order) net_->calls.push_back([list, i](const Tensor& x) { return list->at<Block>(i).forward(x); });
    words_ += fmt::format(", called in the order {}", fmt::join(order, " "));
  }

  // Half of the models: one whole part, or single parameters.
  void freeze() {
    const int64_t kind = random_.between(0, 3);
    const std::string part = random_.among(net_->named_children().keys());
    if (kind == 0) words_ += fmt::format("; {} frozen", part);
    for (const auto& parameter : net_->named_parameters()) {
      const std::string& name = parameter.key();
      if (!parameter.value().defined() || name == "bias") continue;
      const bool alone = kind == 1 && random_.one_in(4);
      if (alone) words_ += fmt::format("; {} frozen", name);
      if (alone || (kind == 0 && name.starts_with(part + "."))) parameter.value().set_requires_grad(false);
    }
  }

  std::function<Tensor(int64_t)> loss() const {
    return [net = net_, vocabulary = vocabulary_](int64_t micro_batch) {
      auto generator = torch::make_generator<at::CPUGeneratorImpl>(1000 + micro_batch);
      const Tensor tokens = torch::randint(0, vocabulary, {kBatch, kLength + 1}, generator, torch::kInt64)
                                .to(testing_models::data_device());
      torch::manual_seed(2000 + micro_batch);  // for dropout
      const Tensor scores = net->forward(tokens.slice(1, 0, kLength)).to(torch::kFloat32);
      return torch::cross_entropy_loss(scores.reshape({-1, vocabulary}), tokens.slice(1, 1).reshape({-1}));
    };
  }

  RandomSource random_;
  std::shared_ptr<Net> net_;
  std::vector<Tensor> weights_;  // that a layer may be tied to
  std::string words_;
  int64_t vocabulary_ = 0, width_ = 0;
};

}  // namespace

RandomModel make_random_model(uint64_t seed, uint64_t weights_seed) {
  torch::manual_seed(weights_seed);
  return Builder(seed).build();
}

}  // namespace fsdp::property
