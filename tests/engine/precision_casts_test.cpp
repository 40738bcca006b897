// Casts of parameters and activations for operators, under mixed precision.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;

using Operator = std::function<torch::Tensor(const torch::Tensor& parameter, const torch::Tensor& x)>;
using Operators = std::vector<std::pair<std::string, Operator>>;

torch::Tensor first_row() { return torch::tensor({0, 1}); }
torch::Tensor indices_of(const torch::Tensor& x) { return torch::zeros_like(x, torch::kLong); }
torch::Tensor heads(const torch::Tensor& x) { return x.reshape({1, 2, 4, 2}); }
torch::Tensor image(const torch::Tensor& x) { return x.reshape({1, 1, 4, 4}); }
torch::Tensor grid(const torch::Tensor& x) { return x.reshape({1, 2, 4, 2}); }

// On a parameter and an activation of 4 x 4. Each takes the activation once, since each use is cast by itself.
Operators operators_of_equal_dtypes() {
  using torch::Tensor;
  return {
      {"sdpa",
       [](auto& p, auto& x) { return at::scaled_dot_product_attention(heads(x), heads(p), heads(x.detach())); }},
      {"sdpa, learned queries",
       [](auto& p, auto& x) { return at::scaled_dot_product_attention(heads(p), heads(x), heads(x.detach())); }},
      {"embedding_bag",
       [](auto& p, auto& x) {
         return std::get<0>(
             at::embedding_bag(p, first_row(), torch::tensor({0}), false, 0, false, x[0].slice(0, 0, 2)));
       }},
      {"index_put", [](auto& p, auto& x) { return x.index_put({first_row()}, p.slice(0, 0, 2)); }},
      {"index_put into a parameter", [](auto& p, auto& x) { return p.index_put({first_row()}, x.slice(0, 0, 2)); }},
      {"scatter", [](auto& p, auto& x) { return x.scatter(0, indices_of(x), p); }},
      {"scatter_add", [](auto& p, auto& x) { return x.scatter_add(0, indices_of(x), p); }},
      {"scatter_reduce", [](auto& p, auto& x) { return x.scatter_reduce(0, indices_of(x), p, "sum"); }},
      {"index_add", [](auto& p, auto& x) { return x.index_add(0, first_row(), p.slice(0, 0, 2)); }},
      {"index_copy", [](auto& p, auto& x) { return x.index_copy(0, first_row(), p.slice(0, 0, 2)); }},
      {"masked_scatter", [](auto& p, auto& x) { return x.masked_scatter(x.detach() > 0.5, p); }},
      {"put", [](auto& p, auto& x) { return x.put(first_row(), p[0].slice(0, 0, 2)); }},
      {"lerp", [](auto& p, auto& x) { return x.lerp(p, 0.3); }},
      {"lerp by a parameter", [](auto& p, auto& x) { return x.lerp(x.detach() * 2, p); }},
      {"grid_sampler", [](auto& p, auto& x) { return at::grid_sampler(image(p), grid(x), 0, 0, false); }},
      {"inner", [](auto& p, auto& x) { return torch::inner(x, p); }},
      {"tensordot", [](auto& p, auto& x) { return torch::tensordot(x, p, {1}, {0}); }},
      {"multi_dot",
       [](auto& p, auto& x) {
         return at::linalg_multi_dot({x, p, x.detach()});
       }},
      {"vecdot", [](auto& p, auto& x) { return at::linalg_vecdot(x, p); }},
      {"cross", [](auto& p, auto& x) { return at::linalg_cross(x.slice(0, 0, 3), p.slice(0, 0, 3), 0); }},
      {"a bias in fp32", [](auto& p, auto& x) { return torch::linear(x, p, x.detach()[0]); }},
  };
}

// Computes `expected` on the parameter and the activation as the library is to cast them.
void expect_casts(World& world, const std::string& name, const Operator& run, torch::ScalarType dtype,
                  torch::ScalarType computes_in) {
  torch::manual_seed(4);
  torch::Tensor parameter = torch::rand({4, 4}).to(dtype).to(torch::kFloat32).requires_grad_();
  const torch::Tensor plain = parameter.detach().clone().requires_grad_();
  const torch::Tensor x = torch::rand({4, 4}).requires_grad_(), y = x.detach().clone().requires_grad_();
  auto sharded = shard(std::vector<NamedUnit>{{"unit", {{"parameter", parameter}}, {}}}, world,
                       {.mixed_precision = {.param_dtype = dtype}});
  const torch::Tensor found = run(parameter, x);
  const torch::Tensor expected = run(plain.to(dtype).to(computes_in), y.to(computes_in));
  EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << name;
  EXPECT_TRUE(torch::equal(found, expected)) << name;
  found.to(torch::kFloat32).sum().backward();
  expected.to(torch::kFloat32).sum().backward();
  EXPECT_EQ(x.grad().defined(), y.grad().defined()) << name;
  if (x.grad().defined()) EXPECT_TRUE(torch::equal(x.grad(), y.grad())) << name;
  const torch::Tensor gradient = sharded.shards()[0].grad();
  EXPECT_TRUE(torch::equal(gradient.clone(), plain.grad().flatten())) << name;
}

TEST(Precision, CastsForEveryOperatorThatNeedsEqualDtypes) {
  run_ranks(1, [](World& world) {
    for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
      for (const auto& [name, run] : operators_of_equal_dtypes()) expect_casts(world, name, run, dtype, dtype);
    }
  });
}

TEST(Precision, CastsParametersToFp32WhereAnOperatorHasNoKernelForSixteenBits) {
  run_ranks(1, [](World& world) {
    const Operators operators{
        {"cdist", [](auto& p, auto& x) { return torch::cdist(x, p); }},
        {"complex", [](auto& p, auto& x) { return torch::complex(x, p).abs(); }},

    };
    for (const auto& [name, run] : operators) {
      expect_casts(world, name, run, torch::kBFloat16, torch::kFloat32);
    }
  });
}

// An operator that writes an activation computes in the dtype of that.
TEST(Precision, CastsParametersForOperatorsThatWriteAnActivation) {
  run_ranks(1, [](World& world) {
    const Operators operators{
        {"index_put_",
         [](auto& p, auto& x) {
           torch::Tensor y = x * 1;
           return y.index_put_({first_row()}, p.slice(0, 0, 2));
         }},
        {"scatter_add_",
         [](auto& p, auto& x) {
           torch::Tensor y = x * 1;
           return y.scatter_add_(0, indices_of(x), p);
         }},
        {"lerp_",
         [](auto& p, auto& x) {
           torch::Tensor y = x * 1;
           return y.lerp_(p, 0.3);
         }},
        {"addmm_",
         [](auto& p, auto& x) {
           torch::Tensor y = x * 1;
           return y.addmm_(x, p);
         }},
    };
    for (const auto& [name, run] : operators) expect_casts(world, name, run, torch::kBFloat16, torch::kFloat32);
    torch::Tensor parameter = torch::eye(4).requires_grad_();
    auto sharded = shard(std::vector<NamedUnit>{{"unit", {{"parameter", parameter}}, {}}}, world,
                         {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    torch::NoGradGuard no_grad;
    torch::Tensor result = torch::zeros({4, 4});
    torch::mm_out(result, torch::ones({4, 4}), parameter);
    EXPECT_TRUE(torch::equal(result, torch::ones({4, 4})));
  });
}

// Such a mask takes part in fp32 beside 16-bit queries, as in LibTorch.
TEST(Precision, LeavesTheMaskOfAttentionInFp32) {
  run_ranks(1, [](World& world) {
    torch::manual_seed(4);
    torch::Tensor keys = torch::rand({1, 2, 4, 2}).requires_grad_();
    const torch::Tensor plain = keys.detach().to(torch::kBFloat16), mask = torch::rand({4, 4});
    auto sharded = shard(std::vector<NamedUnit>{{"unit", {{"keys", keys}}, {}}}, world,
                         {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    EXPECT_TRUE(torch::equal(at::scaled_dot_product_attention(keys, keys, keys, mask),
                             at::scaled_dot_product_attention(plain, plain, plain, mask)));
  });
}

}  // namespace
}  // namespace fsdp
