#include "planning/least_time.h"

#include <algorithm>

#include "plan/mesh_rings.h"
#include "planning/mesh_time.h"
#include "planning/mesh_traffic.h"
#include "planning/planned_mesh.h"
#include "planning/planned_sharding.h"

namespace trainer {

namespace plan = fsdp::plan;

const LeastTimes::TimedBlocks& LeastTimes::blocks_of(const SearchSetting& setting, const RunOptions& run) {
  const BlocksKey key{setting.tensor,        setting.pipeline == 1, setting.has_slices,     setting.batch,
                      setting.recomputation, setting.ranks,         setting.layers_per_unit};
  const auto [place, is_new] = blocks_.try_emplace(key);
  if (!is_new) return place->second;
  const plan::Mesh mesh = planned_mesh(run);
  const plan::MeshPlaces places(mesh.sizes, hosts_of_run(run, target_.hardware));
  const plan::MeshStep step = mesh_step_of(run, mesh, places);
  place->second = {.blocks = step.run.blocks,
                   .times = plan::block_times(step.run.blocks, step.model, step.run.tensors, plan::tensor_ring(places),
                                              plan::sharded_engine("libfsdp"), target_.hardware)};
  return place->second;
}

const std::vector<int>& LeastTimes::cuts_of(const RunOptions& run) {
  const auto [place, is_new] = cuts_.try_emplace(run.stage_count());
  if (is_new) place->second = planned_cuts(run);
  return place->second;
}

double LeastTimes::seconds(const SearchSetting& setting) {
  if (target_.engine != "libfsdp" || target_.hardware.has_cpus()) return 0;
  const RunOptions run = setting.applied_to(options_);
  const TimedBlocks& timed = blocks_of(setting, run);
  const plan::LeastPipeline pipeline{.cuts = cuts_of(run),
                                     .ranks = setting.pipeline,
                                     .micro_batches = setting.micro_batches,
                                     .puts_off_weights = setting.schedule == "zero-bubble"};
  const double passes = plan::least_pass_seconds(pipeline, timed.times);
  if (!run.is_divided()) return passes;
  const plan::MeshPlaces places({run.data_ranks(), setting.pipeline, setting.tensor},
                                hosts_of_run(run, target_.hardware));
  const plan::Sharding sharding = stage_sharding(run, /*on_gpus=*/true, places, 0, 0);
  return std::max(passes, plan::least_reduction_seconds(pipeline, timed.blocks, sharding.reduce_bytes,
                                                        plan::data_rings(places, 0, sharding.group),
                                                        plan::sharded_engine("libfsdp"), target_.hardware));
}

}  // namespace trainer
