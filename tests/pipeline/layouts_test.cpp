// One model on many layouts of eight ranks: data, pipeline and tensor axes. The loss of the tenth step is the same to
// the last digit. The test prints a table of them.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "support/drawn.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

namespace nn = torch::nn;
using fsdp::testing::run_ranks_to_end;

// The width of a part is a multiple of 16 (docs/parallelism.md).
constexpr int kLayoutParts = 8, kLayoutSteps = 10, kBatches = 8;
constexpr int64_t kEntries = 96, kRowLength = 6, kHeadWidth = 16, kModelWidth = kLayoutParts * kHeadWidth,
                  kUpWidth = 2 * kModelWidth;

struct Layout {
  int data, pipeline, tensor;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages_per_rank = 1;
  Strategy strategy = Strategy::FullShard;
};

struct LayoutTokensImpl : nn::Module {
  explicit LayoutTokensImpl(const World& axis)
      : table(nn::EmbeddingOptions(kEntries, kModelWidth), axis, {.parts = kLayoutParts}), drop(0.1) {
    register_module("table", table), register_module("drop", drop);
    places = register_parameter("places", torch::randn({kRowLength, kModelWidth}) / 10);
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return drop(table(tokens) + places); }

  ParallelEmbedding table;
  torch::Tensor places;
  nn::Dropout drop;
};

struct LayoutAttentionImpl : nn::Module {
  explicit LayoutAttentionImpl(const World& axis)
      : norm(nn::LayerNormOptions({kModelWidth})),
        mixed(nn::LinearOptions(kModelWidth, 3 * kModelWidth), axis,
              {.parts = kLayoutParts,
               .blocks = {{kLayoutParts, kHeadWidth}, {kLayoutParts, kHeadWidth}, {kLayoutParts, kHeadWidth}}}),
        out(nn::LinearOptions(kModelWidth, kModelWidth), axis, {.parts = kLayoutParts}),
        drop(0.1) {
    register_module("norm", norm), register_module("mixed", mixed), register_module("out", out);
    register_module("drop", drop);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto qkv = mixed(norm(x)).split_with_sizes(mixed->block_features(), -1);
    std::vector<torch::Tensor> heads;  // one product for each, whose bits do not depend on their number
    for (int64_t begin = 0; begin < qkv[0].size(-1); begin += kHeadWidth) {
      const auto part = [&](int which) { return qkv[which].narrow(-1, begin, kHeadWidth).contiguous(); };
      heads.push_back(torch::softmax(part(0).matmul(part(1).transpose(1, 2)) / 4, -1).matmul(part(2)));
    }
    return x + drop(out(torch::cat(heads, -1)));
  }

  nn::LayerNorm norm;
  ColumnParallelLinear mixed;
  RowParallelLinear out;
  nn::Dropout drop;
};

struct LayoutMlpImpl : nn::Module {
  explicit LayoutMlpImpl(const World& axis)
      : norm(nn::LayerNormOptions({kModelWidth})),
        up(nn::LinearOptions(kModelWidth, kUpWidth), axis, {.parts = kLayoutParts}),
        down(nn::LinearOptions(kUpWidth, kModelWidth), axis, {.parts = kLayoutParts}),
        drop(0.1) {
    register_module("norm", norm), register_module("up", up), register_module("down", down);
    register_module("drop", drop);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + drop(down(torch::gelu(up(norm(x))))); }

  nn::LayerNorm norm;
  ColumnParallelLinear up;
  RowParallelLinear down;
  nn::Dropout drop;
};

struct LayoutLogitsImpl : nn::Module {
  explicit LayoutLogitsImpl(const World& axis)
      : norm(nn::LayerNormOptions({kModelWidth})),
        out(nn::LinearOptions(kModelWidth, kEntries).bias(false), axis,
            {.parts = kLayoutParts, .gather_output = true}) {
    register_module("norm", norm), register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(norm(x)) / 10; }

  nn::LayerNorm norm;
  ColumnParallelLinear out;
};

std::vector<PipelineBlock> layout_blocks(const World& tensor) {
  std::vector<PipelineBlock> blocks{pipeline_block<LayoutTokensImpl>("words", tensor)};
  for (const char* layer : {"0", "1", "2"}) {
    blocks.push_back(pipeline_block<LayoutAttentionImpl>(std::string("attention.") + layer, tensor));
    blocks.push_back(pipeline_block<LayoutMlpImpl>(std::string("mlp.") + layer, tensor));
  }
  blocks.push_back(pipeline_block<LayoutLogitsImpl>("logits", tensor));
  blocks.back().shares = {{"out.weight", "words.table.weight"}};
  return blocks;
}

torch::Tensor layout_tokens(int step, int number) {
  const auto numbers = torch::arange(2 * (kRowLength + 1), torch::kLong) * 7 + step * 13 + number * 5;
  return (numbers * numbers % 101 % kEntries).view({2, kRowLength + 1});
}

// The mean loss of the last step over all micro-batches, added in their order.
double last_loss(World& world, const Layout& layout) {
  const Mesh mesh(world, {{"data", layout.data}, {"pipeline", layout.pipeline}, {"tensor", layout.tensor}});
  torch::manual_seed(4);
  World data = mesh["data"];
  Pipeline pipeline(layout_blocks(mesh["tensor"]), mesh["pipeline"],
                    {.schedule = layout.schedule, .stages_per_rank = layout.stages_per_rank});
  ShardedModel sharded = shard(pipeline.stage(), data, {.strategy = layout.strategy});
  AdamW optimizer(sharded, {.lr = 1e-3});
  torch::Tensor losses;
  for (int step = 0; step < kLayoutSteps; ++step) {
    Tensors inputs, targets;
    for (int i = 0; i < kBatches / layout.data; ++i) {
      const torch::Tensor tokens = layout_tokens(step, i * layout.data + data.rank());
      inputs.push_back(tokens.slice(1, 0, kRowLength));
      targets.push_back(tokens.slice(1, 1));
    }
    losses = torch::zeros({kBatches / layout.data}, torch::kFloat64);
    int done = 0;
    pipeline.step(inputs, targets, [&](const torch::Tensor& output, const torch::Tensor& target) {
      const torch::Tensor loss = nn::functional::cross_entropy(output.flatten(0, 1), target.flatten());
      losses[done++] = loss.item<double>();
      return loss;
    });
    sharded.clip_grad_norm_(0.5);
    optimizer.step();
    optimizer.zero_grad();
  }
  double sum = 0;
  const Tensors of_ranks = data.all_gather(losses);
  for (int number = 0; number < kBatches; ++number)
    sum += of_ranks[number % layout.data][number / layout.data].item<double>();
  return mesh.coordinate("pipeline") + 1 == layout.pipeline ? sum / kBatches : 0;
}

using enum PipelineSchedule;
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> layouts{
      {1, 1, 8},
      {1, 2, 4},
      {1, 2, 4, ZeroBubble},
      {1, 4, 2},
      {1, 4, 2, Interleaved, 2},
      {1, 8, 1},
      {1, 8, 1, AllForwardAllBackward},
      {2, 1, 4},
      {2, 1, 4, OneForwardOneBackward, 1, Strategy::NoShard},
      {2, 2, 2},
      {2, 2, 2, ZeroBubble, 1, Strategy::ShardGradOp},
      {2, 2, 2, Interleaved, 2},
      {2, 4, 1},
      {4, 1, 2},
      {4, 2, 1},
      {4, 2, 1, AllForwardAllBackward, 1, Strategy::ShardOptimizer},
      {8, 1, 1},
      {8, 1, 1, OneForwardOneBackward, 1, Strategy::ShardGradOp},
  };
  return layouts;
}

// Always those of eight ranks along one axis, and of two along each.
bool is_tried(size_t layout) {
  return layout == 5 || layout == 10 || layout == 16 || fsdp::testing::is_drawn(layout, layouts().size());
}

const char* text_of(PipelineSchedule schedule) {
  const std::array<const char*, 5> names{"OneAtATime", "AllForwardAllBackward", "OneForwardOneBackward", "Interleaved",
                                         "ZeroBubble"};
  return names[static_cast<size_t>(schedule)];
}

const char* text_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::FullShard:
      return "FullShard";
    case Strategy::ShardGradOp:
      return "ShardGradOp";
    case Strategy::ShardOptimizer:
      return "ShardOptimizer";
    default:
      return "NoShard";
  }
}

std::string row_of(const Layout& layout, double loss) {
  return fmt::format("| {} x {} x {} | {} | {} | {:.17g} |\n", layout.data, layout.pipeline, layout.tensor,
                     layout.pipeline > 1 ? text_of(layout.schedule) : "",
                     layout.data > 1 ? text_of(layout.strategy) : "", loss);
}

// One process makes the 8 parts of each layer by itself.
TEST(Layouts, HaveOneLoss) {
  const fsdp::testing::RunResult result = run_ranks_to_end(8, [](World& world) {
    World alone = world.split(world.rank());
    const double expected = last_loss(alone, {1, 1, 1});
    std::string table = row_of({1, 1, 1}, expected);
    for (size_t i = 0; i < layouts().size(); ++i) {
      if (!is_tried(i)) continue;
      const Layout& layout = layouts()[i];
      const double loss = last_loss(world, layout);
      if (loss != 0) EXPECT_EQ(loss, expected) << row_of(layout, loss);
      torch::Tensor highest = torch::tensor({loss}, torch::kFloat64);
      world.all_reduce_(highest, ReduceOp::Max);
      table += row_of(layout, highest.item<double>());
    }
    if (world.rank() == 0) std::printf("%s", table.c_str());
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::printf("%s", result.output.c_str());
}

}  // namespace
}  // namespace fsdp
