// A product whose weight is divided among two ranks, and the same product on one.
#include <fsdp/fsdp.h>

#include <cstdio>

namespace {

// `x` is this rank's columns, [rows, in / ranks], and `weight` its part of [out, in]: [out, in / ranks].
torch::Tensor row_parallel(const torch::Tensor& x, const torch::Tensor& weight, const fsdp::World& world) {
  const torch::Tensor part = torch::matmul(x, weight.t());
  return fsdp::differentiable::all_reduce(part, world, fsdp::differentiable::ResultUse::Alike);
}

// Whole numbers, so that the order of additions does not matter.
torch::Tensor made_up(std::vector<int64_t> shape) { return torch::randint(-3, 4, shape, torch::kFloat32); }

void multiply(fsdp::World& world) {
  torch::manual_seed(1);  // the same values on every rank
  const torch::Tensor whole_x = made_up({4, 6}), whole_weight = made_up({5, 6}).requires_grad_();
  const torch::Tensor x = whole_x.chunk(world.size(), 1)[world.rank()];
  const torch::Tensor weight = whole_weight.detach().chunk(world.size(), 1)[world.rank()].clone().requires_grad_();

  const torch::Tensor divided = row_parallel(x, weight, world);
  const torch::Tensor whole = torch::matmul(whole_x, whole_weight.t());
  divided.square().sum().backward();
  whole.square().sum().backward();

  const bool same_product = torch::equal(divided, whole);
  const bool same_gradient = torch::equal(weight.grad(), whole_weight.grad().chunk(world.size(), 1)[world.rank()]);
  std::printf("product %s, gradient %s\n", same_product ? "equal" : "differs", same_gradient ? "equal" : "differs");
}

}  // namespace

int main() { return fsdp::launch({.ranks = 2}, multiply); }
