#include "property/random_layers.h"

#include "interpose/unit_storage.h"

namespace fsdp::property {

namespace {

using torch::Tensor;
using LayerPointer = std::shared_ptr<Layer>;

LayerPointer named(std::string description) {
  auto layer = std::make_shared<Layer>();
  layer->description = std::move(description);
  return layer;
}

LayerPointer linears(RandomSource& random, int64_t width) {
  auto layer = named("linears");
  const int64_t hidden = random.between(1, 33);
  const bool bias = !random.one_in(3);
  auto up = layer->register_module("up", torch::nn::Linear(torch::nn::LinearOptions(width, hidden).bias(bias)));
  auto down = layer->register_module("down", torch::nn::Linear(hidden, width));
  layer->run = [up, down](const Tensor& x) { return down->forward(torch::gelu(up->forward(like(x, up->weight)))); };
  return layer;
}

LayerPointer layer_norm(RandomSource&, int64_t width) {
  auto layer = named("layer norm");
  auto norm = layer->register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  layer->run = [norm](const Tensor& x) { return norm->forward(like(x, norm->weight)); };
  return layer;
}

// The length is the image's height; its width is 1.
LayerPointer convolution(RandomSource& random, int64_t width) {
  auto layer = named("convolution");
  auto convolution = layer->register_module(
      "convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(width, width, {3, 1}).padding({1, 0})));
  if (random.one_in(2)) {
    layer->description = "channels-last convolution";
    convolution->weight.set_data(convolution->weight.to(torch::MemoryFormat::ChannelsLast));
  }
  layer->run = [convolution](const Tensor& x) {
    return convolution->forward(like(x, convolution->weight).transpose(1, 2).unsqueeze(3)).squeeze(3).transpose(1, 2);
  };
  return layer;
}

// Whose forward writes the weight.
LayerPointer masked_linear(RandomSource&, int64_t width) {
  auto layer = named("masked linear");
  auto linear = layer->register_module("linear", torch::nn::Linear(width, width));
  layer->run = [linear](const Tensor& x) {
    linear->weight.data().tril_();
    return linear->forward(like(x, linear->weight));
  };
  return layer;
}

LayerPointer batch_norm(RandomSource&, int64_t width) {
  auto layer = named("batch norm");
  auto norm = layer->register_module("norm", torch::nn::BatchNorm1d(width));
  layer->run = [norm](const Tensor& x) { return norm->forward(like(x, norm->weight).transpose(1, 2)).transpose(1, 2); };
  return layer;
}

LayerPointer lstm(RandomSource& random, int64_t width) {
  auto layer = named("lstm");
  const int64_t layers = random.between(1, 2);
  auto lstm = layer->register_module(
      "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(width, width).num_layers(layers).batch_first(true)));
  layer->run = [lstm](const Tensor& x) { return std::get<0>(lstm->forward(like(x, lstm->all_weights()[0]))); };
  return layer;
}

LayerPointer attention(RandomSource& random, int64_t width) {
  auto layer = named("attention");
  const int64_t heads = width % 2 == 0 ? random.between(1, 2) : 1;
  auto attention = layer->register_module(
      "attention", torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(width, heads)));
  layer->run = [attention](const Tensor& x) {
    const Tensor sequence = like(x, attention->in_proj_weight).transpose(0, 1);
    return std::get<0>(attention->forward(sequence, sequence, sequence)).transpose(0, 1);
  };
  return layer;
}

// Of random numbers, which a block that runs again draws again.
LayerPointer dropout(RandomSource&, int64_t) {
  auto layer = named("dropout");
  auto dropout = layer->register_module("dropout", torch::nn::Dropout(0.3));
  layer->run = [dropout](const Tensor& x) { return dropout->forward(x); };
  return layer;
}

LayerPointer gain(RandomSource&, int64_t) {
  auto layer = named("scalar gain");
  const Tensor scale = layer->register_parameter("scale", torch::rand({}) + 0.5);
  layer->run = [scale](const Tensor& x) { return x * scale; };
  return layer;
}

using Maker = LayerPointer (*)(RandomSource&, int64_t);
const std::vector<Maker> kMakers = {linears, linears,   layer_norm, convolution,   batch_norm,
                                    lstm,    attention, gain,       masked_linear, dropout};

}  // namespace

Tensor like(const Tensor& x, const Tensor& weight) {
  return interpose::UnitStorage::of(weight) == nullptr ? x.to(weight.scalar_type()) : x;
}

LayerPointer random_layer(RandomSource& random, int64_t width) { return random.among(kMakers)(random, width); }

LayerPointer tied_layer(const Tensor& weight) {
  auto layer = named("tied linear");
  const Tensor shared = layer->register_parameter("weight", weight, weight.requires_grad());
  layer->run = [shared](const Tensor& x) { return torch::linear(torch::linear(like(x, shared), shared), shared.t()); };
  return layer;
}

}  // namespace fsdp::property
