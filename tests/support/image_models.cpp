#include "support/image_models.h"

#include <utility>

namespace fsdp::testing_models {

namespace {

using torch::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::ConvTranspose2d;
using torch::nn::ConvTranspose2dOptions;
using torch::nn::Linear;
using torch::nn::ModuleList;
using torch::nn::Sequential;

Conv2d convolution(int64_t in, int64_t out, int64_t kernel = 3, int64_t stride = 1, int64_t groups = 1) {
  return Conv2d(Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false));
}

Tensor twice_as_large(const Tensor& x) { return torch::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)}); }

struct DoubleConvolutionImpl : torch::nn::Module {
  DoubleConvolutionImpl(int64_t in, int64_t out)
      : layers(register_module("layers", Sequential(convolution(in, out), BatchNorm2d(out), torch::nn::ReLU(),
                                                    convolution(out, out), BatchNorm2d(out), torch::nn::ReLU()))) {}
  Tensor forward(const Tensor& x) { return layers->forward(x); }

  Sequential layers;
};
TORCH_MODULE(DoubleConvolution);

struct UNetImpl : torch::nn::Module {
  UNetImpl()
      : first(register_module("first", DoubleConvolution(3, 16))),
        down1(register_module("down1", DoubleConvolution(16, 32))),
        down2(register_module("down2", DoubleConvolution(32, 48))),
        down3(register_module("down3", DoubleConvolution(48, 64))),
        up1(register_module("up1", DoubleConvolution(64 + 48, 48))),
        up2(register_module("up2", DoubleConvolution(48 + 32, 32))),
        up3(register_module("up3", DoubleConvolution(32 + 16, 16))),
        last(register_module("last", Conv2d(Conv2dOptions(16, 2, 1)))) {}

  Tensor forward(const Tensor& image) {
    const Tensor a = first(image), b = down1(torch::max_pool2d(a, 2)), c = down2(torch::max_pool2d(b, 2));
    const Tensor d = down3(torch::max_pool2d(c, 2));
    Tensor x = up1(torch::cat({twice_as_large(d), c}, 1));
    x = up2(torch::cat({twice_as_large(x), b}, 1));
    return last(up3(torch::cat({twice_as_large(x), a}, 1)));
  }

  DoubleConvolution first, down1, down2, down3, up1, up2, up3;
  Conv2d last;
};
TORCH_MODULE(UNet);

TestModel make_unet() {
  torch::manual_seed(21);
  UNet model;
  return {model.ptr(), [model](int64_t b) mutable {
            return model->forward(values_for(b, {2, 3, 8, 8})).pow(2).mean();
          }};
}

struct VggImpl : torch::nn::Module {
  VggImpl(int64_t pooled, int64_t hidden)
      : features(register_module("features", Sequential())),
        pool(torch::nn::AdaptiveAvgPool2dOptions({pooled, pooled})),
        classifier(
            register_module("classifier", Sequential(Linear(48 * pooled * pooled, hidden), torch::nn::ReLU(),
                                                     Linear(hidden, hidden), torch::nn::ReLU(), Linear(hidden, 10)))) {
    int64_t in = 3;
    for (const int64_t out : {32, 48, 48, 48, 48, 48}) {
      features->push_back(Conv2d(Conv2dOptions(in, out, 3).padding(1)));
      features->push_back(torch::nn::ReLU());
      in = out;
    }
  }
  Tensor forward(const Tensor& x) { return classifier->forward(pool(features->forward(x)).flatten(1)); }

  Sequential features;
  torch::nn::AdaptiveAvgPool2d pool;
  Sequential classifier;
};
TORCH_MODULE(Vgg);

TestModel make_vgg_of(int64_t pooled, int64_t hidden) {
  torch::manual_seed(22);
  Vgg model(pooled, hidden);
  return {model.ptr(), [model](int64_t b) mutable {
            return torch::cross_entropy_loss(model->forward(values_for(b, {2, 3, 6, 6})),
                                             torch::tensor({0, 1}, data_device()));
          }};
}

TestModel make_vgg() { return make_vgg_of(1, 64); }

// An inverted bottleneck with squeeze and excitation.
struct MbConvImpl : torch::nn::Module {
  MbConvImpl(int64_t in, int64_t out)
      : expand(register_module("expand", Sequential(convolution(in, 4 * in, 1), BatchNorm2d(4 * in)))),
        depthwise(
            register_module("depthwise", Sequential(convolution(4 * in, 4 * in, 3, 1, 4 * in), BatchNorm2d(4 * in)))),
        squeeze(register_module("squeeze", Conv2d(Conv2dOptions(4 * in, in / 4, 1)))),
        excite(register_module("excite", Conv2d(Conv2dOptions(in / 4, 4 * in, 1)))),
        project(register_module("project", Sequential(convolution(4 * in, out, 1), BatchNorm2d(out)))) {}

  Tensor forward(const Tensor& input) {
    Tensor x = torch::silu(depthwise->forward(torch::silu(expand->forward(input))));
    x = x * torch::sigmoid(excite(torch::silu(squeeze(x.mean({2, 3}, /*keepdim=*/true)))));
    x = project->forward(x);
    return x.sizes() == input.sizes() ? x + input : x;
  }

  Sequential expand, depthwise;
  Conv2d squeeze, excite;
  Sequential project;
};
TORCH_MODULE(MbConv);

// A Sequential that a Sequential can hold.
struct StagedImpl : torch::nn::SequentialImpl {
  using torch::nn::SequentialImpl::SequentialImpl;
  Tensor forward(Tensor x) { return torch::nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Staged);

struct EfficientNetImpl : torch::nn::Module {
  EfficientNetImpl()
      : stem(register_module("stem", Sequential(convolution(3, 16), BatchNorm2d(16)))),
        stages(register_module("stages", Sequential())),
        head(register_module("head", Sequential(convolution(48, 96, 1), BatchNorm2d(96)))),
        classifier(register_module("classifier", Linear(96, 10))) {
    int64_t in = 16;
    for (const int64_t out : {16, 24, 40, 48}) {
      stages->push_back(out < 40 ? Staged(MbConv(in, out)) : Staged(MbConv(in, out), MbConv(out, out)));
      in = out;
    }
  }
  Tensor forward(const Tensor& image) {
    const Tensor x = stages->forward(torch::silu(stem->forward(image)));
    return classifier(torch::silu(head->forward(x)).mean({2, 3}));
  }

  Sequential stem, stages, head;
  Linear classifier;
};
TORCH_MODULE(EfficientNet);

TestModel make_efficient_net() {
  torch::manual_seed(23);
  EfficientNet model;
  return {model.ptr(), [model](int64_t b) mutable {
            return torch::cross_entropy_loss(model->forward(values_for(b, {2, 3, 6, 6})),
                                             torch::tensor({2, 3}, data_device()));
          }};
}

// A list of layers by number, some of which take the results of earlier ones, and two detectors.
struct YoloImpl : torch::nn::Module {
  YoloImpl() : layers(register_module("layers", ModuleList())) {
    int64_t in = 3;
    for (const int64_t out : {24, 40, 28, 40, 40, 28, 40}) {
      layers->push_back(layer(in, out, out < in ? 1 : 3));
      in = out;
    }
    layers->push_back(Sequential(Conv2d(Conv2dOptions(40, 14, 1))));
    layers->push_back(layer(40 + 40, 20, 3));
    layers->push_back(Sequential(Conv2d(Conv2dOptions(20, 14, 1))));
  }
  static Sequential layer(int64_t in, int64_t out, int64_t kernel) {
    return Sequential(convolution(in, out, kernel), BatchNorm2d(out),
                      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.1)));
  }
  Tensor run(size_t index, const Tensor& x) { return layers[index]->as<torch::nn::SequentialImpl>()->forward(x); }

  Tensor forward(Tensor x) {
    for (size_t i = 0; i < 4; ++i) x = run(i, x);
    const Tensor fine = x;
    x = torch::max_pool2d(x, 2);
    for (size_t i = 4; i < 7; ++i) x = run(i, x);
    const Tensor large = run(7, x);
    const Tensor small = run(9, run(8, torch::cat({twice_as_large(x), fine}, 1)));
    return torch::cat({large.flatten(1), small.flatten(1)}, 1);
  }

  ModuleList layers;
};
TORCH_MODULE(Yolo);

TestModel make_yolo() {
  torch::manual_seed(24);
  Yolo model;
  return {model.ptr(), [model](int64_t b) mutable {
            return model->forward(values_for(b, {2, 3, 4, 4})).pow(2).mean();
          }};
}

TestModel make_dcgan_generator() {
  torch::manual_seed(25);
  const auto grown = [](int64_t in, int64_t out) {
    return ConvTranspose2d(ConvTranspose2dOptions(in, out, 4).stride(2).padding(1).bias(false));
  };
  Sequential model(ConvTranspose2d(ConvTranspose2dOptions(24, 32, 2).bias(false)));
  for (int i = 0; i < 4; ++i) {
    model->push_back(BatchNorm2d(32));
    model->push_back(torch::nn::ReLU());
    model->push_back(grown(32, 32));
  }
  model->push_back(torch::nn::ReLU());
  model->push_back(convolution(32, 3));
  model->push_back(torch::nn::Tanh());
  return {model.ptr(), [model](int64_t b) mutable {
            return (model->forward(values_for(b, {2, 24, 1, 1})) - 0.5).pow(2).mean();
          }};
}

TestModel make_dcgan_discriminator() {
  torch::manual_seed(26);
  const auto halved = [](int64_t in, int64_t out) {
    return Conv2d(Conv2dOptions(in, out, 4).stride(2).padding(1).bias(false));
  };
  const auto leaky = [] { return torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)); };
  Sequential model(halved(3, 24), leaky(), halved(24, 32), BatchNorm2d(32), leaky(), halved(32, 32), BatchNorm2d(32),
                   leaky(), convolution(32, 40), BatchNorm2d(40), leaky(), convolution(40, 40), BatchNorm2d(40),
                   leaky(), convolution(40, 40), leaky(), Conv2d(Conv2dOptions(40, 1, 2).bias(false)),
                   torch::nn::Sigmoid());
  return {model.ptr(), [model](int64_t b) mutable {
            return model->forward(values_for(b, {2, 3, 16, 16})).log().neg().mean();
          }};
}

struct TimedResidualImpl : torch::nn::Module {
  TimedResidualImpl(int64_t in, int64_t out)
      : first(register_module("first", convolution(in, out))),
        time(register_module("time", Linear(32, out))),
        second(register_module("second", convolution(out, out))),
        norm(register_module("norm", torch::nn::GroupNorm(torch::nn::GroupNormOptions(4, out)))),
        shortcut(register_module("shortcut", convolution(in, out, 1))) {}
  Tensor forward(const Tensor& x, const Tensor& t) {
    const Tensor h = torch::silu(first(x)) + time(t).unsqueeze(-1).unsqueeze(-1);
    return torch::silu(norm(second(h))) + shortcut(x);
  }

  Conv2d first;
  Linear time;
  Conv2d second;
  torch::nn::GroupNorm norm;
  Conv2d shortcut;
};
TORCH_MODULE(TimedResidual);

struct NoiseImpl : torch::nn::Module {
  NoiseImpl()
      : time(register_module("time", Sequential(Linear(8, 32), torch::nn::SiLU(), Linear(32, 32)))),
        first(register_module("first", convolution(3, 16))),
        downs(register_module("downs", ModuleList(TimedResidual(16, 24), TimedResidual(24, 32)))),
        middle(register_module("middle", TimedResidual(32, 32))),
        attention(register_module("attention", torch::nn::MultiheadAttention(32, 4))),
        ups(register_module("ups", ModuleList(TimedResidual(32 + 32, 24), TimedResidual(24 + 24, 16)))),
        last(register_module("last", convolution(16, 3))) {}

  Tensor forward(const Tensor& image, const Tensor& step) {
    const Tensor t = torch::silu(time->forward(step));
    Tensor x = first(image);
    std::vector<Tensor> passed;
    for (const auto& down : *downs) {
      x = down->as<TimedResidualImpl>()->forward(x, t);
      passed.push_back(x);
      x = torch::avg_pool2d(x, 2);
    }
    x = attend(middle(x, t));
    for (const auto& up : *ups) {
      x = up->as<TimedResidualImpl>()->forward(torch::cat({twice_as_large(x), passed.back()}, 1), t);
      passed.pop_back();
    }
    return last(x);
  }
  Tensor attend(const Tensor& x) {
    const Tensor tokens = x.flatten(2).permute({2, 0, 1});
    return x + std::get<0>(attention(tokens, tokens, tokens)).permute({1, 2, 0}).reshape(x.sizes());
  }

  Sequential time;
  Conv2d first;
  ModuleList downs;
  TimedResidual middle;
  torch::nn::MultiheadAttention attention;
  ModuleList ups;
  Conv2d last;
};
TORCH_MODULE(Noise);

TestModel make_diffusion() {
  torch::manual_seed(27);
  Noise model;
  return {model.ptr(), [model](int64_t b) mutable {
            const Tensor noise = values_for(b, {2, 3, 8, 8});
            return (model->forward(noise + values_for(b + 500, {2, 3, 8, 8}), values_for(b + 900, {2, 8})) - noise)
                .pow(2)
                .mean();
          }};
}

}  // namespace

TestModel make_vgg_with_large_layer() { return make_vgg_of(3, 256); }

std::vector<ModelKind> image_model_kinds() {
  return {{"UNet", make_unet},
          {"Vgg", make_vgg},
          {"EfficientNet", make_efficient_net},
          {"Yolo", make_yolo},
          {"DcganGenerator", make_dcgan_generator},
          {"DcganDiscriminator", make_dcgan_discriminator},
          {"Diffusion", make_diffusion}};
}

}  // namespace fsdp::testing_models
