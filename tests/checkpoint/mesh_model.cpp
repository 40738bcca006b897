#include "checkpoint/mesh_model.h"

#include "pipeline/small_gpt.h"

namespace fsdp::testing {

namespace {

namespace nn = torch::nn;

constexpr int64_t kWidth = 16, kWords = 21;  // words that 4 parts do not divide
constexpr TensorParallelOptions kParts{.parts = 4};

struct DividedWordsImpl : nn::Module {
  explicit DividedWordsImpl(const World& tensor) {
    table = register_module("table", ParallelEmbedding(nn::EmbeddingOptions(kWords, kWidth), tensor, kParts));
  }
  torch::Tensor forward(const torch::Tensor& words) { return table(words); }
  ParallelEmbedding table = nullptr;
};

// Fused gate and up, and fused QKV with fewer key heads than parts. A part has a multiple of 16 features, so that the
// bits of element-wise functions do not depend on the ranks.
struct DividedLayerImpl : nn::Module {
  explicit DividedLayerImpl(const World& tensor) {
    const auto fused = [](std::vector<FeatureBlock> blocks) {
      TensorParallelOptions options = kParts;
      options.blocks = std::move(blocks);
      return options;
    };
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
    qkv = register_module(
        "qkv", ColumnParallelLinear(nn::LinearOptions(kWidth, 128), tensor, fused({{4, 16}, {2, 16}, {2, 16}})));
    out = register_module("out", RowParallelLinear(nn::LinearOptions(64, kWidth), tensor, kParts));
    gate_up =
        register_module("gate_up", ColumnParallelLinear(nn::LinearOptions(kWidth, 64), tensor, fused({{32}, {32}})));
    down = register_module("down", RowParallelLinear(nn::LinearOptions(32, kWidth), tensor, kParts));
    scale = register_buffer("scale", torch::rand({1}));
  }
  torch::Tensor forward(torch::Tensor x) {
    const auto heads = qkv(norm(x)).split_with_sizes(qkv->block_features(), -1);
    x = x + out(heads[0] * heads[1] + heads[2]) * scale;
    const auto parts = gate_up(x).split_with_sizes(gate_up->block_features(), -1);
    return x + down(parts[0] * parts[1]);
  }
  nn::LayerNorm norm = nullptr;
  ColumnParallelLinear qkv = nullptr, gate_up = nullptr;
  RowParallelLinear out = nullptr, down = nullptr;
  torch::Tensor scale;
};

struct WordLogitsImpl : nn::Module {
  WordLogitsImpl() { head = register_module("head", nn::Linear(kWidth, kWords)); }
  torch::Tensor forward(const torch::Tensor& x) { return head(x); }
  nn::Linear head = nullptr;
};

std::vector<PipelineBlock> divided_blocks(const World& tensor) {
  std::vector<PipelineBlock> blocks{pipeline_block<DividedWordsImpl>("words", tensor)};
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(pipeline_block<DividedLayerImpl>("layers." + std::to_string(i), tensor));
  }
  blocks.push_back(pipeline_block<WordLogitsImpl>("logits"));
  return blocks;
}

testing_models::SmallGpt tied_model() { return {.dropout = 0, .tied = true}; }

Pipeline make_pipeline(const Mesh& mesh, const MeshShape& shape, int seed) {
  torch::manual_seed(seed);
  const auto blocks = shape.tied ? testing_models::blocks_of(tied_model()) : divided_blocks(mesh["tensor"]);
  return {
      blocks,
      mesh["pipeline"],
      {.schedule = shape.stages_per_rank > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward,
       .stages_per_rank = shape.stages_per_rank}};
}

ShardedModel shard_stage(Pipeline& pipeline, World data, const MeshShape& shape) {
  return shard(pipeline.stage(), data, {.strategy = shape.strategy});
}

std::unique_ptr<Optimizer> make_optimizer(ShardedModel& sharded, const MeshShape& shape) {
  if (!shape.muon) return std::make_unique<AdamW>(sharded, AdamWOptions{.lr = 1e-2, .state_dtype = shape.state_dtype});
  return std::make_unique<Muon>(sharded, MuonOptions{.lr = 1e-2, .not_matrices = {"no name"}});
}

}  // namespace

MeshTraining::MeshTraining(World& world, const MeshShape& shape, int seed)
    : mesh(world, {{"data", shape.data}, {"pipeline", shape.pipeline}, {"tensor", shape.tensor}}),
      shape(shape),
      pipeline(make_pipeline(mesh, shape, seed)),
      sharded(shard_stage(pipeline, mesh["data"], shape)),
      optimizer(make_optimizer(sharded, shape)) {}

void MeshTraining::step_to(int last) {
  for (; steps < last; ++steps) {
    Tensors words, targets;  // of one micro-batch: the sum of 2 or 4 equal gradients is exact
    if (shape.tied) {
      words.push_back(testing_models::tokens_of(tied_model(), steps, 0, 2));
      targets.push_back(testing_models::next_tokens_of(tied_model(), steps, 0, 2));
    } else {
      words.push_back((torch::arange(12).view({2, 6}) * 5 + steps * 3) % kWords);
      targets.push_back((words.back() + 1) % kWords);
    }
    const auto loss = [](const torch::Tensor& output, const torch::Tensor& target) {
      return torch::nn::functional::cross_entropy(output.flatten(0, 1), target.flatten());
    };
    pipeline.step(words, targets, loss);
    optimizer->step();
    optimizer->zero_grad();
  }
}

std::vector<std::pair<std::string, torch::Tensor>> MeshTraining::state() {
  NamedTensors all = sharded.full_state();
  const auto state = optimizer->state();
  for (size_t i = 0; i < sharded.parameters().size(); ++i) {
    const std::string& name = sharded.parameters()[i].name;
    for (const auto& one : state.elements) {
      if (one.tensors[i].defined()) all.emplace_back(one.name + " " + name, one.tensors[i].clone());
    }
    for (const auto& one : state.scalars) all.emplace_back(one.name + " " + name, one.tensors[i].clone());
  }
  return all;
}

}  // namespace fsdp::testing
