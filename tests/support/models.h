// Small models of each kind that users shard, written without a word of sharding, and data for them.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::testing_models {

// A module and how to train it. Equal for equal seeds.
struct TestModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(int64_t micro_batch)> loss;  // of a micro-batch by its global number
};

struct ModelKind {
  std::string name;
  std::function<TestModel()> make;
};

// GPT with a tied embedding, TransformerEncoder, convolutions with BatchNorm, LSTM.
std::vector<ModelKind> model_kinds();

// Where the data of these models lies: on the CPU, unless an OnDevice says otherwise.
torch::Device data_device();
class OnDevice {
 public:
  explicit OnDevice(torch::Device device);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();
};

// Normal values, equal for equal numbers.
torch::Tensor values_for(int64_t micro_batch, at::IntArrayRef sizes);

TestModel make_gpt(int64_t blocks = 3, int64_t width = 32);

}  // namespace fsdp::testing_models
