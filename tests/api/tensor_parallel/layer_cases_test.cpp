// Divided layers in uses that are easy to get wrong: the bits of one process with as many parts, or an error.
#include <ATen/autocast_mode.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <sstream>

#include "api/tensor_parallel/parallel_models.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kOuter = 16;
constexpr int kPairParts = 4;

Tensor random_numbers(std::vector<int64_t> shape, uint64_t seed = 1) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kFloat32);
}

// 16 features of a part inside, so that gelu has the same bits.
struct LayerPair : nn::Module {
  explicit LayerPair(const World& axis, TensorParallelOptions parallel = {.parts = kPairParts})
      : up(nn::LinearOptions(kOuter, 64), axis, parallel), down(nn::LinearOptions(64, kOuter), axis, parallel) {
    register_module("up", up), register_module("down", down);
  }
  Tensor forward(const Tensor& x) { return down(torch::gelu(up(x))); }
  ColumnParallelLinear up;
  RowParallelLinear down;
};

// Named results of a use, beside the gradients of the parameters that have one.
using PairUse = std::function<Values(LayerPair&)>;

Values results_of(const PairUse& use, const World& axis, const TensorParallelOptions& parallel,
                  std::map<std::string, ParameterDivision>* divisions = nullptr) {
  torch::manual_seed(3);
  LayerPair pair(axis, parallel);
  if (divisions != nullptr) *divisions = divisions_of(pair);
  Values results = use(pair);
  for (const auto& item : pair.named_parameters()) {
    if (item.value().grad().defined()) results[item.key()] = item.value().grad().clone();
  }
  return results;
}

void expect_bits_of_one(World& world, const PairUse& use,
                        const TensorParallelOptions& parallel = {.parts = kPairParts}) {
  std::map<std::string, ParameterDivision> divisions;
  const Values found = results_of(use, world, parallel, &divisions);
  const Values expected = results_of(use, world.split(world.rank()), parallel);
  expect_parts(found, expected, divisions);
  for (const auto& [name, value] : found) EXPECT_FALSE(value.isnan().any().item<bool>()) << name;
}

// A forward and a backward with another gradient for each output.
Values trained(const Tensor& values, const std::function<Tensor(const Tensor&)>& forward) {
  const Tensor input = values.detach().requires_grad_();
  const Tensor output = forward(input);
  (output * random_numbers(output.sizes().vec(), 5)).sum().backward();
  return {{"output", output.detach()}, {"of_input", input.grad()}};
}
Values trained(LayerPair& pair, const Tensor& values) {
  return trained(values, [&](const Tensor& x) { return pair.forward(x); });
}

TEST(LayerCases, InputsOfAnyDimensionsAndStrides) {
  run_ranks(2, [](World& world) {
    const std::vector<Tensor> inputs{random_numbers({kOuter}),
                                     random_numbers({3, kOuter}),
                                     random_numbers({2, 3, kOuter}),
                                     random_numbers({2, 2, 3, kOuter}),
                                     random_numbers({kOuter, 5}).t(),
                                     random_numbers({3, 4, kOuter}).transpose(0, 1),
                                     random_numbers({1, kOuter}).expand({3, kOuter}),
                                     torch::empty({0, kOuter}),
                                     torch::empty({2, 0, kOuter})};
    for (const Tensor& input : inputs) {
      SCOPED_TRACE(fmt::format("[{}]", fmt::join(input.sizes(), ", ")));
      expect_bits_of_one(world, [&](LayerPair& pair) { return trained(pair, input); });
    }
  });
}

TEST(LayerCases, SlicesOfOneElementAndNoTokens) {
  run_ranks(2, [](World& world) {
    for (const Tensor& whole :
         {random_numbers({3, 2, kOuter}), torch::empty({0, 4, kOuter}), random_numbers({1, 8, kOuter})}) {
      SCOPED_TRACE(fmt::format("[{}]", fmt::join(whole.sizes(), ", ")));
      expect_bits_of_one(world,
                         [&](LayerPair& pair) {
                           const World& axis = pair.up->axis();
                           return trained(whole, [&](const Tensor& x) {
                             const Tensor output = pair.forward(sequence_slice(x, axis));
                             return differentiable::all_gather(output, axis, 1, differentiable::ResultUse::Alike);
                           });
                         },
                         {.parts = 2, .sequence_parallel = true});
    }
  });
}

TEST(LayerCases, UsesOfOneLayer) {
  run_ranks(2, [](World& world) {
    const Tensor input = random_numbers({3, kOuter});
    // Twice in a forward, one use behind the other and beside it.
    expect_bits_of_one(world, [&](LayerPair& pair) {
      return trained(input, [&](const Tensor& x) { return pair.forward(pair.forward(x)) + pair.forward(x * 2); });
    });
    expect_bits_of_one(world, [&](LayerPair& pair) {
      return trained(input, [&](const Tensor& x) {
        return activation_checkpoint([&](const Tensor& y) { return pair.forward(y); }, x);
      });
    });
    // Two backwards of a graph that is retained.
    expect_bits_of_one(world, [&](LayerPair& pair) {
      return trained(input, [&](const Tensor& x) {
        const Tensor output = pair.forward(x);
        output.square().sum().backward({}, /*retain_graph=*/true);
        return output;
      });
    });
    // Without a gradient of the input.
    expect_bits_of_one(world, [&](LayerPair& pair) {
      pair.forward(input).square().sum().backward();
      return Values{};
    });
    expect_bits_of_one(world, [&](LayerPair& pair) {
      pair.up->weight.register_hook([](const Tensor& gradient) { return gradient * 3; });
      return trained(pair, input);
    });
    expect_bits_of_one(world, [&](LayerPair& pair) {
      const Tensor x = input.clone().requires_grad_();
      const auto gradients = torch::autograd::grad({pair.forward(x).square().sum()}, {x});
      EXPECT_FALSE(pair.up->weight.grad().defined());
      return Values{{"of_input", gradients[0]}};
    });
    expect_bits_of_one(world, [&](LayerPair& pair) {
      const auto up = std::dynamic_pointer_cast<ColumnParallelLinearImpl>(pair.up->clone());
      const auto down = std::dynamic_pointer_cast<RowParallelLinearImpl>(pair.down->clone());
      Values results = trained(input, [&](const Tensor& x) { return down->forward(torch::gelu(up->forward(x))); });
      results["up.weight"] = up->weight.grad(), results["down.weight"] = down->weight.grad();
      return results;
    });
  });
}

TEST(LayerCases, FrozenParameters) {
  run_ranks(2, [](World& world) {
    for (const std::string frozen : {"up.weight", "up.bias", "down.weight", "down.bias"}) {
      SCOPED_TRACE(frozen);
      expect_bits_of_one(world, [&](LayerPair& pair) {
        pair.named_parameters()[frozen].set_requires_grad(false);
        Values results = trained(pair, random_numbers({3, kOuter}));
        EXPECT_FALSE(pair.named_parameters()[frozen].grad().defined());
        return results;
      });
    }
  });
}

TEST(LayerCases, OtherDtypes) {
  run_ranks(2, [](World& world) {
    for (const auto dtype : {torch::kBFloat16, torch::kFloat16, torch::kFloat64}) {
      SCOPED_TRACE(toString(dtype));
      for (const bool sequence_parallel : {false, true}) {
        expect_bits_of_one(world,
                           [&](LayerPair& pair) {
                             const World& axis = pair.up->axis();
                             pair.to(dtype);
                             return trained(random_numbers({2, 4, kOuter}).to(dtype), [&](const Tensor& x) {
                               if (!sequence_parallel) return pair.forward(x);
                               return differentiable::all_gather(pair.forward(sequence_slice(x, axis)), axis, 1,
                                                                 differentiable::ResultUse::Alike);
                             });
                           },
                           {.parts = kPairParts, .sequence_parallel = sequence_parallel});
      }
    }
  });
}

// The layers compute in the dtype of their weight.
TEST(LayerCases, AutocastChangesNothing) {
  run_ranks(2, [](World& world) {
    const auto use = [](LayerPair& pair) { return trained(pair, random_numbers({3, kOuter})); };
    const TensorParallelOptions parallel{.parts = kPairParts};
    const Values expected = results_of(use, world, parallel);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const Values found = results_of(use, world, parallel);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    expect_parts(found, expected, {});
  });
}

TEST(LayerCases, WithoutGradients) {
  run_ranks(2, [](World& world) {
    const auto outputs = [](const World& axis) {
      torch::manual_seed(3);
      const TensorParallelOptions slices{.parts = kPairParts, .sequence_parallel = true};
      LayerPair pair(axis), sliced(axis, slices);
      ColumnParallelLinear whole(nn::LinearOptions(kOuter, 8), axis,
                                 TensorParallelOptions{.parts = kPairParts, .gather_output = true});
      ParallelEmbedding words(nn::EmbeddingOptions(9, kOuter), axis, TensorParallelOptions{.parts = kPairParts});
      const Tensor x = words(torch::arange(8).view({2, 4}));
      const Tensor slice = on_sequence_slices(
          sequence_slice(x, axis), {torch::ones({kOuter}), Tensor()}, axis, slices,
          [](const Tensor& part, const auto& of) { return torch::layer_norm(part, {kOuter}, of[0], of[1]); });
      const Tensor together =
          differentiable::all_gather(sliced.forward(slice), axis, 1, differentiable::ResultUse::Alike);
      const Tensor loss = linear_cross_entropy(together, words->weight, torch::arange(8).view({2, 4}),
                                               {.divided_over = axis, .parts = kPairParts});
      return std::vector<Tensor>{pair.forward(x).detach(), whole(x).detach(), together.detach(), loss.detach()};
    };
    const auto expected = outputs(world.split(world.rank()));
    const auto compare = [&](const std::vector<Tensor>& found) {
      for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
    };
    compare(outputs(world));
    {
      const torch::NoGradGuard no_grad;
      compare(outputs(world));
    }
    const c10::InferenceMode inference;
    compare(outputs(world));
  });
}

TEST(LayerCases, NormsOnSlicesWithoutABias) {
  run_ranks(2, [](World& world) {
    const auto gradient_over = [](const World& axis) {
      const Tensor weight = random_numbers({kOuter}, 2).requires_grad_();
      const TensorParallelOptions parallel{.parts = 4, .sequence_parallel = true};
      const Tensor slice = sequence_slice(random_numbers({2, 4, kOuter}), axis);
      const Tensor normed = on_sequence_slices(
          slice, {weight, Tensor()}, axis, parallel,
          [](const Tensor& part, const auto& of) { return torch::layer_norm(part, {kOuter}, of[0], of[1]); });
      normed.square().sum().backward();
      return weight.grad();
    };
    EXPECT_TRUE(torch::equal(gradient_over(world), gradient_over(world.split(world.rank()))));
  });
}

// A padding entry that is counted from the end had a gradient.
TEST(LayerCases, EmbeddingsWithAPaddingEntryFromTheEnd) {
  run_ranks(2, [](World& world) {
    const auto options = nn::EmbeddingOptions(7, 3).padding_idx(-2);
    torch::manual_seed(3);
    ParallelEmbedding divided(options, world);
    torch::manual_seed(3);
    nn::Embedding plain(options);
    const Tensor indices = torch::tensor({5, 6, 0, 5, 1});
    for (const Tensor& output : {divided(indices), plain(indices)}) (output + 1).square().sum().backward();
    EXPECT_TRUE(torch::equal(divided->weight, part_of(plain->weight, divided->divisions()[0])));
    EXPECT_TRUE(torch::equal(divided->weight.grad(), part_of(plain->weight.grad(), divided->divisions()[0])));
    EXPECT_EQ(plain->weight.grad()[5].abs().sum().item<float>(), 0);
  });
}

TEST(LayerCases, EmbeddingsOfNoIndicesAndOfInt32) {
  run_ranks(2, [](World& world) {
    ParallelEmbedding words(nn::EmbeddingOptions(7, 3), world);
    const Tensor none = words(torch::empty({2, 0}, torch::kInt64));
    EXPECT_EQ(none.sizes(), (std::vector<int64_t>{2, 0, 3}));
    none.sum().backward();
    EXPECT_EQ(words->weight.grad().abs().sum().item<float>(), 0);
    const Tensor indices = torch::tensor({0, 6, 3});
    EXPECT_TRUE(torch::equal(words(indices.to(torch::kInt32)), words(indices)));
  });
}

// Slices along the features came out.
TEST(LayerCases, EmbeddingsOfSlicesNeedASequence) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](World& world) {
      ParallelEmbedding words(nn::EmbeddingOptions(7, 4), world, {.parts = 2, .sequence_parallel = true});
      EXPECT_THAT(message_of([&] {
                    words(torch::tensor({0, 6, 3, 1}));
                  }),
                  AllOf(HasSubstr("ParallelEmbedding: found a tensor of shape [4]"), HasSubstr("[batch, sequence")));
    });
  }
}

// Data ranks 0 and 1 have a micro-batch each; one process adds up both. Each layer is a unit, freed after its use.
void expect_sharded_bits_of_one(World& world, const std::function<void(LayerPair&, const Tensor&)>& run,
                                const Options& options) {
  const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
  const auto weights_over = [&](const World& axis, World data, int micro_batches) {
    torch::manual_seed(3);
    LayerPair pair(axis);
    ShardedModel sharded = shard(pair, data, options);
    sharded.set_gradient_divisor(2);
    AdamW optimizer(sharded, {.lr = 1e-2});
    for (uint64_t step = 0; step < 3; ++step) {
      for (int i = 0; i < micro_batches; ++i)
        run(pair, random_numbers({3, kOuter}, 2 * step + static_cast<uint64_t>(data.rank() + i)));
      optimizer.step();
      optimizer.zero_grad();
    }
    const NamedTensors state = sharded.full_state();
    return std::pair(Values(state.begin(), state.end()), divisions_of(pair));
  };
  const auto [found, divisions] = weights_over(mesh["tensor"], mesh["data"], 1);
  World alone = world.split(world.rank());
  expect_parts(found, weights_over(alone, alone, 2).first, divisions);
}

TEST(LayerCases, ShardedUses) {
  run_ranks(4, [](World& world) {
    Options options{.units = units_by([](const std::string& name, const auto&) { return !name.empty(); })};
    for (const bool in_bf16 : {false, true}) {
      SCOPED_TRACE(in_bf16);
      if (in_bf16) options.mixed_precision.param_dtype = torch::kBFloat16;
      const auto loss_of = [](const Tensor& output) { return output.to(torch::kFloat32).square().sum(); };
      const auto twice = [&](LayerPair& pair, const Tensor& x) {
        loss_of(pair.forward(pair.forward(x)) + pair.forward(x * 2)).backward();
      };
      expect_sharded_bits_of_one(world, twice, options);
      const auto recomputed = [&](LayerPair& pair, const Tensor& x) {
        loss_of(activation_checkpoint([&](const Tensor& y) { return pair.forward(y); }, x.clone().requires_grad_()))
            .backward();
      };
      expect_sharded_bits_of_one(world, recomputed, options);
      const auto frozen = [&](LayerPair& pair, const Tensor& x) {
        pair.up->weight.set_requires_grad(false);
        loss_of(pair.forward(x)).backward();
      };
      expect_sharded_bits_of_one(world, frozen, options);
      const auto hooked = [&](LayerPair& pair, const Tensor& x) {
        const auto number = pair.down->weight.register_hook([](const Tensor& gradient) { return gradient * 4; });
        loss_of(pair.forward(x)).backward();
        pair.down->weight.remove_hook(number);
      };
      expect_sharded_bits_of_one(world, hooked, options);
      const auto evaluated = [&](LayerPair& pair, const Tensor& x) {
        const Tensor loss = loss_of(pair.forward(x));
        {
          const torch::NoGradGuard no_grad;
          pair.forward(x * 3);
        }
        loss.backward();
      };
      expect_sharded_bits_of_one(world, evaluated, options);
    }
  });
}

TEST(LayerCases, SavedAndLoadedByTorch) {
  run_ranks(2, [](World& world) {
    std::stringstream file;
    torch::manual_seed(3);
    ColumnParallelLinear saved(nn::LinearOptions(kOuter, 8), world), loaded(nn::LinearOptions(kOuter, 8), world);
    EXPECT_FALSE(torch::equal(saved->weight, loaded->weight));
    torch::save(saved, file);
    torch::load(loaded, file);
    EXPECT_TRUE(torch::equal(saved->weight, loaded->weight));
    EXPECT_EQ(saved->named_parameters().keys(), (std::vector<std::string>{"weight", "bias"}));
  });
}

// Sums of other shapes were broadcast to each other.
TEST(LayerCases, OtherDataOnARankIsAnErrorOnAllRanks) {
  run_ranks(2, [](World& world) {
    const int64_t own = world.rank() == 0 ? 1 : 3;
    LayerPair pair(world, {.parts = 2, .sequence_parallel = true});
    EXPECT_THAT(message_of<Error>([&] {
                  pair.down(torch::ones({own, 2, 32}));
                }),
                AllOf(HasSubstr(world.rank() == 0 ? "rank 1 of the axis has a slice of shape [3, 1, 16] of each sum"
                                                  : "rank 0 of the axis has a slice of shape [1, 1, 16] of each sum"),
                      HasSubstr("Give all ranks of the axis the same data")));
    EXPECT_THAT(message_of<Error>([&] { pair.up(torch::ones({own, 2, kOuter})); }), HasSubstr("of shape [3, 2, 16]"));
  });
}

// The waiting ranks repeat the message.
TEST(LayerCases, ARankThatThrowsInItsForwardIsNamed) {
  const auto result = run_ranks_to_end(
      2,
      [](World& world) {
        LayerPair pair(world);
        if (world.rank() == 1) throw std::runtime_error("no data today");
        pair.forward(torch::ones({2, kOuter}));
      },
      fsdp::testing::patient_options());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no data today"), HasSubstr("rank 1")));
}

}  // namespace
}  // namespace fsdp::parallel_models
