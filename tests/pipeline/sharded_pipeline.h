// Pipelines whose stages are sharded over a second axis, compared with one stage over the same data ranks.
#pragma once

#include <fsdp/fsdp.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/forms.h"

namespace fsdp::testing_models {

// Four layers, of which the last shares its parameters with the first.
FormCase tied_stages();

// A stage on this rank, with its model.
struct ShardedPipeline {
  Pipeline pipeline;
  ShardedModel sharded;

  ShardedPipeline(const FormCase& form, World pipeline_axis, World data_axis, const Options& options = {},
                  const PipelineOptions& pipeline_options = {});
  // Three micro-batches.
  double step();
};

// The program with 1 stage and with 2 or more on 2 pipeline ranks, on 2 data ranks: the same numbers and weights. It
// returns numbers to compare.
using ShardedProgram = std::function<std::vector<double>(ShardedPipeline& model)>;
struct AlikeOptions {
  Options options = {};
  PipelineOptions pipeline = {};      // of the divided one
  std::optional<Options> plain = {};  // of the one stage; none: `options`
  std::string backend = "auto";
};
void expect_alike(const FormCase& form, const ShardedProgram& program, const AlikeOptions& how = {});

}  // namespace fsdp::testing_models
