#include "planning/mesh_time.h"

#include <algorithm>

#include "planning/mesh_traffic.h"
#include "planning/options_of_rank.h"
#include "planning/second_forwards.h"
#include "planning/transformer_shape.h"

namespace trainer {

size_t strategy_number(const RunOptions& options) {
  return static_cast<size_t>(std::ranges::find(kStrategies, options.strategy) - kStrategies.begin());
}

fsdp::plan::MeshStep mesh_step_of(const RunOptions& options, const fsdp::plan::Mesh& mesh,
                                  const fsdp::plan::MeshPlaces& places) {
  const models::Recomputation recomputation = options.recomputation();
  fsdp::plan::MeshRun run = mesh_run_of(options, /*on_gpus=*/true, mesh, places, {});
  const int64_t element = run.sharding.param_bytes;
  return {.run = std::move(run),
          .model = {.shape = transformer_shape(options_of_rank(options).model),
                    .pass = {.batch = options.batch,
                             .sequence = options.model.context,
                             .element = element,
                             .has_wide_loss = false,
                             .slices = options.sequence_parallel ? options.tensor_parallel : 1},
                    .again = second_forwards(options),
                    .is_selective = recomputation.keeps_products && recomputation.blocks > 0},
          .strategy = strategy_number(options),
          .prefetch = static_cast<int>(options.prefetch),
          .clips = options.clip > 0};
}

}  // namespace trainer
