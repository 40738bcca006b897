#include "property/mesh_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace fsdp::property {

namespace {

namespace nn = torch::nn;
using enum MeshBlockKind;

const char* name_of(MeshBlockKind kind) {
  switch (kind) {
    case Words:
      return "words";
    case Pair:
      return "pair";
    case Norm:
      return "norm";
    case Dropout:
      return "dropout";
    case Fork:
      return "fork";
    case Mark:
      return "mark";
    case Join:
      return "join";
    case Head:
      return "head";
  }
  return "?";
}

std::string words_of(const MeshBlockSpec& block) {
  std::string words = block.divided ? "divided " : "";
  words += name_of(block.kind);
  if (block.kind == Pair) words += fmt::format(" of {}{}", block.inner, block.bias ? "" : " without bias");
  if (block.kind == Mark) words += block.of_bools ? " of bools" : " of numbers";
  if (block.dropout > 0) words += ", dropout";
  if (block.recomputed) words += ", recomputed";
  if (block.frozen) words += ", frozen";
  return words;
}

// The forward of a layer over the tensor axis, or of a whole one.
using LayerCall = std::function<torch::Tensor(const torch::Tensor&)>;

class MeshBlockImpl : public nn::Module {
 public:
  MeshBlockImpl(const MeshBlockSpec& block, const MeshModel& model, const World& tensor)
      : block_(block), drop_(register_module("drop", nn::Dropout(block.dropout))) {
    const int64_t width = model.width;
    const TensorParallelOptions parts{.parts = model.parts};
    if (block.kind == Words) {
      table_ = block.divided ? with_module("table", ParallelEmbedding({model.vocabulary, width}, tensor, parts))
                             : with_module("table", nn::Embedding(model.vocabulary, width));
      own_ = register_parameter("places", torch::randn({model.length, width}) / 4);
    } else if (block.kind == Pair) {
      norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
      const auto up = nn::LinearOptions(width, block.inner).bias(block.bias);
      const auto down = nn::LinearOptions(block.inner, width).bias(block.bias);
      up_ = block.divided ? with_module("up", ColumnParallelLinear(up, tensor, parts))
                          : with_module("up", nn::Linear(up));
      down_ = block.divided ? with_module("down", RowParallelLinear(down, tensor, parts))
                            : with_module("down", nn::Linear(down));
    } else if (block.kind == Norm) {
      norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
    } else if (block.kind == Fork) {
      own_ = register_parameter("scale", torch::rand({width}));
    } else if (block.kind != Head && !block.bare) {
      own_ = register_parameter("shift", torch::randn({width}) / 4);
    } else if (block.kind == Head) {
      TensorParallelOptions gathered = parts;
      gathered.gather_output = true;
      const auto out = nn::LinearOptions(width, model.vocabulary).bias(false);
      up_ = block.divided ? with_module("out", ColumnParallelLinear(out, tensor, gathered))
                          : with_module("out", nn::Linear(out));
    }
  }

  Tensors forward(const Tensors& inputs) {
    Tensors outputs = inputs;
    if (block_.kind == Join || block_.kind == Head) outputs = {joined(inputs)};
    const torch::Tensor x = outputs[0];
    if (block_.kind == Fork) outputs.push_back(torch::tanh(x * own_));
    if (block_.kind == Mark) outputs.push_back(block_.of_bools ? x.detach() > 0 : x.detach().cos());
    outputs[0] =
        block_.recomputed ? activation_checkpoint([this](const torch::Tensor& y) { return run(y); }, x) : run(x);
    return outputs;
  }

 private:
  template <typename Holder>
  LayerCall with_module(const char* name, Holder layer) {
    register_module(name, layer);
    return [layer](const torch::Tensor& x) mutable { return layer->forward(x); };
  }
  static torch::Tensor joined(const Tensors& tensors) {
    torch::Tensor sum = tensors[0];
    for (size_t i = 1; i < tensors.size(); ++i) sum = sum + tensors[i].to(sum.scalar_type()) / 2;
    return sum;
  }
  torch::Tensor run(const torch::Tensor& x) {
    switch (block_.kind) {
      case Words:
        return drop_(table_(x) + own_);
      case Pair:
        return x + drop_(down_(torch::gelu(up_(norm_(x)))));
      case Norm:
        return norm_(x);
      case Head:
        return up_(x) / 4;
      default:
        return own_.defined() && block_.kind != Fork ? drop_(x + own_) : drop_(x);
    }
  }

  const MeshBlockSpec block_;
  nn::Dropout drop_;
  nn::LayerNorm norm_ = nullptr;
  LayerCall table_, up_, down_;
  torch::Tensor own_;
};

std::string block_name(size_t place) { return fmt::format("block{}", place); }

MeshBlockSpec draw_block(RandomSource& random, const MeshModel& model, int64_t part_width, bool may_be_bare) {
  MeshBlockSpec block;
  block.kind = random.among<MeshBlockKind>({Pair, Pair, Pair, Norm, Dropout, Fork, Mark, Join});
  block.divided = !random.one_in(3);
  block.bias = !random.one_in(3);
  block.of_bools = random.one_in(2);
  block.bare = may_be_bare && random.one_in(2);
  block.inner = part_width * model.parts * random.between(1, 2);
  if (block.kind == Dropout || random.one_in(3)) block.dropout = 0.2;
  block.recomputed = random.one_in(4);
  block.frozen = random.one_in(6);
  return block;
}

torch::Tensor numbers_for(const MeshModel& model, int64_t number) {
  const int64_t rows = 1 + number % 3;  // micro-batches differ in size
  const auto numbers = torch::arange(rows * (model.length + 1), torch::kLong) * 7 + number * 13;
  return (numbers * numbers % 101 % model.vocabulary).view({rows, model.length + 1});
}

// torch::nn::Module keeps its table of parameters to itself.
struct TableOf : nn::Module {
  static void replace_weight(nn::Module& module, const torch::Tensor& weight) {
    (module.*&TableOf::parameters_)["weight"] = weight;
  }
};

// `head` is a linear layer, whole or divided.
void tie_head(nn::Module& head, const torch::Tensor& weight) {
  TableOf::replace_weight(head, weight);
  if (auto* whole = head.as<nn::LinearImpl>()) whole->weight = weight;
  if (auto* divided = head.as<ColumnParallelLinearImpl>()) divided->weight = weight;
}

}  // namespace

std::string MeshModel::first_name_of(const std::string& parameter) const {
  const bool is_copy = tied && parameter == block_name(blocks.size() - 1) + ".out.weight";
  return is_copy ? block_name(0) + ".table.weight" : parameter;
}

std::string MeshModel::words() const {
  std::vector<std::string> each;
  for (const MeshBlockSpec& block : blocks) each.push_back(words_of(block));
  return fmt::format("{} tokens of width {}, {} parts{}: {}", vocabulary, width, parts, tied ? ", tied" : "",
                     fmt::join(each, "; "));
}

MeshModel draw_mesh_model(RandomSource& random, int parts, const MeshModelNeeds& needs) {
  MeshModel model;
  model.parts = parts;
  const int64_t part_width = needs.measured && model.parts > 1 ? 64 : 16;
  model.width = part_width == 64 ? 64 : 16 * random.between(1, 2);
  model.vocabulary = model.parts * random.between(2, 4);
  model.length = random.between(1, 5);
  const auto inner_blocks = static_cast<int>(random.between(std::max(0, needs.blocks - 2), needs.blocks + 3));
  const bool divided_words = random.one_in(2);
  const bool divided_head = random.one_in(2);
  model.tied = divided_words == divided_head && random.one_in(2);
  model.blocks.push_back({.kind = Words,
                          .divided = divided_words,
                          .dropout = random.one_in(2) ? 0.2 : 0,
                          .recomputed = random.one_in(4),
                          .frozen = !model.tied && random.one_in(6)});
  for (int i = 0; i < inner_blocks; ++i) model.blocks.push_back(draw_block(random, model, part_width, !needs.sharded));
  model.blocks.push_back({.kind = Head, .divided = divided_head, .recomputed = random.one_in(4)});
  if (!divided_words && !divided_head) model.vocabulary += random.between(0, 5);
  return model;
}

std::vector<PipelineBlock> pipeline_blocks(const MeshModel& model, const World& tensor) {
  std::vector<PipelineBlock> blocks;
  for (size_t i = 0; i < model.blocks.size(); ++i)
    blocks.push_back(pipeline_block<MeshBlockImpl>(block_name(i), model.blocks[i], model, tensor));
  if (model.tied) blocks.back().shares = {{"out.weight", block_name(0) + ".table.weight"}};
  return blocks;
}

void freeze_blocks(const MeshModel& model, torch::nn::Module& root) {
  const auto children = root.named_children();
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    if (!model.blocks[i].frozen || !children.contains(block_name(i))) continue;
    for (const torch::Tensor& parameter : children[block_name(i)]->parameters()) parameter.set_requires_grad(false);
  }
}

torch::Tensor tokens_for(const MeshModel& model, int64_t number) {
  return numbers_for(model, number).slice(1, 0, model.length);
}

torch::Tensor targets_for(const MeshModel& model, int64_t number) { return numbers_for(model, number).slice(1, 1); }

torch::Tensor mesh_loss(const torch::Tensor& scores, const torch::Tensor& targets) {
  return nn::functional::cross_entropy(scores.flatten(0, 1), targets.flatten());
}

WholeModel::WholeModel(MeshModel model, const World& alone) : root(std::make_shared<nn::Module>()) {
  for (MeshBlockSpec& block : model.blocks) block.recomputed = false;
  blocks_ = pipeline_blocks(model, alone);
  for (const PipelineBlock& block : blocks_) modules_.push_back(root->register_module(block.name, block.make()));
  if (model.tied) tie_head(*modules_.back()->named_children()["out"], modules_[0]->named_parameters()["table.weight"]);
  freeze_blocks(model, *root);
}

torch::Tensor WholeModel::forward(const torch::Tensor& tokens, uint64_t step_number, int64_t micro_batch) {
  Tensors tensors{tokens};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    seed_micro_batch(step_number, micro_batch, static_cast<int64_t>(i));
    tensors = blocks_[i].forward(*modules_[i], tensors);
  }
  return tensors.at(0);
}

}  // namespace fsdp::property
