// A model whose layers lie on two devices of one process, placed by hand. It is plain LibTorch: libfsdp has no part in
// it.
//
//   layers_by_hand [DEVICE DEVICE]     cuda:0 and cuda:1, as far as the machine has them, and otherwise the CPU
//
// This is enough if a model of a few layers does not fit on one device. One device works at a time: the second waits
// for the first in each forward, and the first for the second in each backward. fsdp::Pipeline keeps both busy.
#include <torch/torch.h>

#include <cstdio>
#include <string>

namespace {

namespace nn = torch::nn;

constexpr int64_t kFeatures = 32, kClasses = 10, kSamples = 64, kSteps = 40;

struct NetImpl : nn::Module {
  NetImpl(torch::Device first, torch::Device second)
      : first(first),
        second(second),
        layers_1(register_module(
            "layers_1", nn::Sequential(nn::Linear(kFeatures, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU()))),
        layers_2(
            register_module("layers_2", nn::Sequential(nn::Linear(128, 128), nn::ReLU(), nn::Linear(128, kClasses)))) {
    layers_1->to(first);
    layers_2->to(second);
  }
  // Autograd copies the gradient back from one device to the other.
  torch::Tensor forward(torch::Tensor x) {
    x = layers_1->forward(x.to(first));
    return layers_2->forward(x.to(second));
  }

  torch::Device first, second;
  nn::Sequential layers_1, layers_2;
};
TORCH_MODULE(Net);

torch::Device device_of(int argc, char** argv, int number) {
  if (argc > number) return torch::Device(argv[number]);
  const auto devices = static_cast<int>(torch::cuda::device_count());
  if (devices == 0) return torch::kCPU;
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(number <= devices ? number - 1 : 0));
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(0);
  Net net(device_of(argc, argv, 1), device_of(argc, argv, 2));
  std::printf("layers_1 on %s, layers_2 on %s\n", net->first.str().c_str(), net->second.str().c_str());
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-3));
  const torch::Tensor samples = torch::randn({kSamples, kFeatures});
  const torch::Tensor labels = torch::randint(kClasses, {kSamples}, torch::kInt64).to(net->second);
  for (int64_t step = 1; step <= kSteps; ++step) {
    const torch::Tensor loss = nn::functional::cross_entropy(net->forward(samples), labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    if (step == 1 || step % 10 == 0) std::printf("step %2d  loss %.4f\n", static_cast<int>(step), loss.item<double>());
  }
}
