// A sharded model in a process with Python: in_python.py loads this library and calls it.
#include <fsdp/fsdp.h>
#include <torch/torch.h>

#include <string>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("first", first), register_module("second", second); }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))).pow(2).mean(); }
  torch::nn::Linear first{16, 16}, second{16, 4};
};

std::shared_ptr<NetImpl> make_net() {
  torch::manual_seed(3);
  return std::make_shared<NetImpl>();
}

torch::Tensor weights_of(const fsdp::NamedTensors& state) {
  std::vector<torch::Tensor> flat;
  for (const auto& [name, tensor] : state) flat.push_back(tensor.flatten());
  return torch::cat(flat);
}

// One step, with the block kept or run again in the backward. Sets `counted` to the bytes that autograd saved.
torch::Tensor trained(fsdp::World& world, bool again, int64_t& counted) {
  const auto net = make_net();
  auto sharded = fsdp::shard(*net, world);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-2});
  const torch::Tensor x = torch::ones({8, 16}, torch::requires_grad());
  const auto forward = [&](const torch::Tensor& input) { return net->forward(input); };
  const torch::Tensor loss = again ? fsdp::activation_checkpoint(forward, x) : forward(x);
  counted = sharded.memory().activation_bytes;
  loss.backward();
  optimizer.step();
  return weights_of(sharded.full_state());
}

}  // namespace

// The sentence that says what went wrong; empty if nothing did.
extern "C" const char* train_in_python() {
  static std::string problem;
  problem = "the ranks did not run";
  fsdp::launch({.ranks = 1}, [](fsdp::World& world) {
    int64_t kept = 0, kept_again = 0;
    const torch::Tensor plain = trained(world, false, kept), again = trained(world, true, kept_again);
    problem = kept == 0             ? "no saved tensor was counted"
              : kept_again >= kept  ? "a block that runs again keeps its activations"
              : !plain.equal(again) ? "the weights differ where the block runs again"
                                    : "";
  });
  return problem.c_str();
}
