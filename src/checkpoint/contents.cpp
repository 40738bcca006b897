#include "checkpoint/contents.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rank_names.h"
#include "checkpoint/saved_ranges.h"
#include "checkpoint/state_kinds.h"
#include "engine/model.h"

namespace fsdp::checkpoint {

namespace {

constexpr int64_t kMessageBytes = 4096;

using States = std::vector<Optimizer::ElementState>;

// The scales of codes of 8 bits; undefined for other states.
torch::Tensor scales_of(const Optimizer::ElementState& state, const States& all, size_t i) {
  const torch::ScalarType type = state.tensors[i].defined() ? state.tensors[i].scalar_type() : torch::kFloat;
  if (type != torch::kChar && type != torch::kByte) return {};
  const auto scales = std::ranges::find(all, state.name + kScales, &Optimizer::ElementState::name);
  if (scales == all.end() || !scales->tensors[i].defined()) return {};
  const torch::Tensor& found = scales->tensors[i];
  const int64_t blocks = (state.tensors[i].numel() + layout::kAlignmentNumel - 1) / layout::kAlignmentNumel;
  return found.scalar_type() == torch::kFloat && found.numel() == blocks ? found : torch::Tensor();
}

// Scales have one element for a block of the parameter's.
int64_t numel_each_of(const Optimizer::ElementState& state, const States& all, size_t i) {
  const auto has_these = [&](const auto& other) { return scales_of(other, all, i).is_same(state.tensors[i]); };
  return std::ranges::any_of(all, has_these) ? layout::kAlignmentNumel : 1;
}

void add_optimizer(Contents& contents, size_t parameters, Optimizer& optimizer) {
  const auto* ours = dynamic_cast<const PieceOptimizer*>(&optimizer);
  const Optimizer::State state = ours != nullptr ? ours->own_state() : optimizer.state();
  const auto kind_of = [](const Optimizer::ElementState& one) { return fmt::format("{}.{}", kOptimizer, one.name); };
  for (const auto& one : state.elements) {
    for (size_t i = 0; i < parameters; ++i) {
      if (!one.tensors[i].defined()) continue;
      contents.pieces.push_back(
          {kind_of(one), i, one.tensors[i], numel_each_of(one, state.elements, i), scales_of(one, state.elements, i)});
    }
  }
  for (const auto& one : state.scalars) {
    for (size_t i = 0; i < parameters; ++i) {
      if (one.tensors[i].defined()) contents.scalars.push_back({kind_of(one), i, one.tensors[i]});
    }
  }
}

}  // namespace

Contents contents_of(const Checkpoint& checkpoint) {
  engine::Model& model = checkpoint.model->model();
  FSDP_CHECK(checkpoint.optimizer == nullptr || &checkpoint.optimizer->model() == &model,
             "Checkpoint: the optimizer is one of another model. Set .optimizer to the optimizer of .model.");
  const auto& parameters = model.parameters();
  Contents contents;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ShardedParameter& one = parameters[i];
    contents.pieces.push_back({kModel, i, one.piece});
    contents.names.push_back(name_in_whole(model.whole(), one.name));
    contents.segments.push_back(
        segments_of(model.whole(), one.name, one.shape, {one.offset, one.offset + one.piece.numel()}));
  }
  if (checkpoint.optimizer != nullptr) add_optimizer(contents, parameters.size(), *checkpoint.optimizer);
  return contents;
}

bool is_copy(const Contents& contents, size_t parameter) {
  const auto end = contents.names.begin() + static_cast<ptrdiff_t>(parameter);
  return std::find(contents.names.begin(), end, contents.names[parameter]) != end;
}

Contents::Piece part_of(const Contents::Piece& piece, const Segment& segment) {
  const int64_t numel = segment.placement.numel();
  const auto slice = [&](const torch::Tensor& tensor, int64_t numel_each) {
    const int64_t first = segment.at / numel_each, wanted = blocks_of(numel, numel_each);
    return first == 0 && wanted == tensor.numel() ? tensor : tensor.slice(0, first, first + wanted);
  };
  const bool in_blocks = piece.numel_each > 1 || piece.scales.defined();
  FSDP_CHECK(!in_blocks || segment.at % layout::kAlignmentNumel == 0,
             "this rank's part of a parameter begins at element {} of its piece, expected a multiple of {}: blocks of "
             "8-bit state are not divided. Use another state_dtype.",
             segment.at, layout::kAlignmentNumel);
  Contents::Piece part = piece;
  part.tensor = slice(piece.tensor, piece.numel_each);
  if (piece.scales.defined()) part.scales = slice(piece.scales, layout::kAlignmentNumel);
  return part;
}

NamedTensors tensors_of_file(const Checkpoint& checkpoint, const Contents& contents, std::vector<FileTensor>& of) {
  engine::Model& model = checkpoint.model->model();
  NamedTensors tensors;
  for (const auto& piece : contents.pieces) {
    if (piece.tensor.numel() == 0 || is_copy(contents, piece.parameter)) continue;
    const std::string& name = contents.names[piece.parameter];
    tensors.emplace_back(piece.kind + "." + name, piece.tensor);
    of.push_back({.parameter = name, .numel_each = piece.numel_each});
  }
  if (model.group().rank() == 0) {
    for (const auto& [name, buffer] : model.buffers()) {
      tensors.emplace_back(kBuffer + name, buffer);
      of.emplace_back();
    }
  }
  return tensors;
}

Manifest manifest_of(const Checkpoint& checkpoint, const Contents& contents) {
  engine::Model& model = checkpoint.model->model();
  Manifest manifest{.world_size = model.group().size(),
                    .step = checkpoint.step,
                    .parameters = {},
                    .notes = checkpoint.notes,
                    .files = {}};
  for (const auto& unit : model.units()) {
    for (size_t i = 0; i < unit->shapes.size(); ++i) {
      const std::string& own_name = unit->parameters[i].name();
      auto& parameter = manifest.parameters.emplace_back();
      parameter.name = name_in_whole(model.whole(), own_name);
      parameter.shape = whole_shape(model.whole(), own_name, unit->shapes[i].sizes);
      parameter.strides = unit->shapes[i].strides;
      if (parameter.shape != unit->shapes[i].sizes) parameter.strides = strides_of_rows(parameter.shape);
      for (const Segment& segment : contents.segments[manifest.parameters.size() - 1]) {
        parameter.parts.push_back({.offset = segment.at, .placement = segment.placement});
      }
    }
  }
  for (const auto& piece : contents.pieces) {
    manifest.parameters[piece.parameter].tensors[piece.kind] = dtype_name(piece.tensor.scalar_type());
  }
  for (const auto& scalar : contents.scalars) {
    manifest.parameters[scalar.parameter].scalars[scalar.kind] = scalar.tensor.item<double>();
  }
  for (const auto& [name, buffer] : model.buffers()) {
    manifest.buffers.push_back({name, buffer.sizes().vec(), dtype_name(buffer.scalar_type())});
  }
  return manifest;
}

void all_succeed(collectives::Group& group, const std::string& what, const std::function<void()>& body) {
  std::string problem;
  try {
    body();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  torch::Tensor message = torch::zeros({kMessageBytes}, torch::kUInt8);
  std::memcpy(message.mutable_data_ptr(), problem.data(), std::min<size_t>(problem.size(), kMessageBytes - 1));
  const auto messages = group.all_gather(message, "calls " + what.substr(0, what.find(' ')));
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::string theirs = static_cast<const char*>(messages[rank].const_data_ptr());
    if (theirs.empty()) continue;
    if (rank == group.rank()) throw Error(problem);
    FSDP_CHECK(false, "{} failed on {}: {}", what, text_of_rank(group.name_of(rank)), theirs);
  }
}

}  // namespace fsdp::checkpoint
