#include "planning/tensor_traffic.h"

#include <algorithm>

#include "models/block_costs.h"

namespace trainer {

namespace {

// Tensors of [batch, length, width] that a block's passes exchange.
struct Exchanges {
  double sums = 0;    // over all parts, on every rank
  double slices = 0;  // a rank's slice of such a sum
  double wholes = 0;  // slices of all ranks
};

struct LayerCounts {
  double columns = 0, rows = 0;  // layers by the way in which they are divided
};

LayerCounts count_layers(const models::ModelBlock& block) {
  LayerCounts counts;
  for (const models::Parameter& parameter : block.parameters) {
    const bool is_divided = parameter.kind == models::ParameterKind::Matrix && parameter.divided;
    if (is_divided && !models::is_adapter(parameter.name))
      ++(parameter.divided->dim == 0 ? counts.columns : counts.rows);
  }
  return counts;
}

// A row layer adds up its output, and a column layer the gradient of its input. Where these are slices, the column
// layer gathers its input, again for the gradient of its weight, and the row layer the gradient of its output.
Exchanges layer_exchanges(const models::ModelBlock& block, bool slices, bool again) {
  const auto [columns, rows] = count_layers(block);
  // A second forward ends before its last product.
  const double forwards = again ? 2 : 1, rows_of_forwards = forwards * rows - (again ? 1 : 0);
  if (!slices) return {.sums = rows_of_forwards + columns};
  return {.slices = rows_of_forwards + columns, .wholes = forwards * columns + columns + rows};
}

// The embedding adds up its rows. The head adds up the gradient of its input, which is whole.
Exchanges end_exchanges(const models::ModelBlock& block, bool slices) {
  const bool is_divided = block.parameters.front().divided.has_value();
  if (!is_divided) return {};
  if (block.parameters.front().kind != models::ParameterKind::Embedding)
    return {.sums = 1, .wholes = slices ? 1.0 : 0.0};
  return slices ? Exchanges{.slices = 1, .wholes = 1} : Exchanges{.sums = 1};
}

}  // namespace

double tensor_bytes(const RunOptions& options, const PlannedMesh& mesh, int stage) {
  if (mesh.tensor == 1) return 0;
  const std::vector<models::ModelBlock> blocks = models::blocks(options.model);
  const models::Recomputation recomputation = options.recomputation();
  const int first = mesh.first_block(stage);
  int64_t layer =
      std::count_if(blocks.begin(), blocks.begin() + first, [](const auto& block) { return block.is_layer; });
  Exchanges all;
  for (int i = first; i < first + mesh.cuts[static_cast<size_t>(stage)]; ++i) {
    const models::ModelBlock& block = blocks[static_cast<size_t>(i)];
    const bool again =
        block.is_layer && recomputation.of(layer++, options.model.layers) && !recomputation.keeps_products;
    const Exchanges one = block.is_layer ? layer_exchanges(block, options.sequence_parallel, again)
                                         : end_exchanges(block, options.sequence_parallel);
    all.sums += one.sums;
    all.slices += one.slices;
    all.wholes += one.wholes;
  }
  const auto ranks = static_cast<double>(mesh.tensor), parts = static_cast<double>(options.parts()) / ranks;
  const double element = options.param_dtype == "fp32" ? 4 : 2;
  const double tensor = element * static_cast<double>(options.batch * options.model.context * options.model.width);
  // Each rank sends its slice of each of its parts to the rank that adds them up.
  return tensor * (ranks - 1) / ranks * (all.sums * (parts + 1) + all.slices * parts + all.wholes);
}

}  // namespace trainer
