#include "plan/mesh.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "plan/checks.h"
#include "stages/cuts.h"
#include "stages/schedules.h"

namespace fsdp::plan {

namespace {

constexpr int64_t kMostPasses = int64_t{1} << 22;  // forwards of a step

void check_cuts(const MeshSizes& sizes, const std::vector<int>& cuts) {
  FSDP_CHECK(!cuts.empty() && std::ssize(cuts) % sizes.pipeline == 0,
             "plan: found {} stages for a pipeline of {} ranks, expected equally many for each rank.", cuts.size(),
             sizes.pipeline);
  int64_t blocks = 0;
  for (const int cut : cuts) {
    FSDP_CHECK(cut >= 1, "plan: found a stage of {} blocks, expected at least 1.", cut);
    blocks += cut;
  }
  FSDP_CHECK(blocks <= stages::kMostNumber, "plan: found {} blocks, expected at most {}.", blocks, stages::kMostNumber);
}

}  // namespace

int64_t ranks_of(const MeshSizes& sizes) {
  int64_t ranks = 1;
  for (const int64_t size : {sizes.data, sizes.pipeline, sizes.tensor}) {
    FSDP_CHECK(
        size >= 1 && size <= kMostRanks / ranks,
        "plan: found a mesh of {} data x {} pipeline x {} tensor ranks, expected at least 1 on each axis, and at "
        "most {} in all.",
        sizes.data, sizes.pipeline, sizes.tensor, kMostRanks);
    ranks *= size;
  }
  return ranks;
}

int Mesh::first_block(int stage) const { return std::accumulate(cuts.begin(), cuts.begin() + stage, 0); }

std::vector<int> Mesh::stages_of(int64_t pipeline_rank) const {
  std::vector<int> own;
  for (auto stage = static_cast<int>(pipeline_rank); stage < stages(); stage += static_cast<int>(sizes.pipeline))
    own.push_back(stage);
  return own;
}

Mesh mesh_of(const MeshSizes& sizes, std::vector<int> cuts, std::string_view schedule, int64_t micro_batches) {
  ranks_of(sizes);
  check_cuts(sizes, cuts);
  FSDP_CHECK(micro_batches >= 1 && micro_batches <= kMostPasses / std::ssize(cuts),
             "plan: found {} micro-batches for {} stages, expected 1 to {}.", micro_batches, cuts.size(),
             kMostPasses / std::ssize(cuts));
  const stages::NamedSchedule& named = stages::named_schedule(schedule);
  const auto ranks = static_cast<int>(sizes.pipeline), stages_per_rank = static_cast<int>(std::ssize(cuts)) / ranks;
  return {.sizes = sizes,
          .cuts = std::move(cuts),
          .schedule = named.generate(ranks, stages_per_rank, static_cast<int>(micro_batches)),
          .schedule_name = named.name};
}

IdleShares idle_shares(const Mesh& mesh, const std::vector<stages::StageTimes>& blocks) {
  const int count = mesh.end_block(mesh.stages() - 1);
  FSDP_CHECK(std::ssize(blocks) == count, "plan: found times of {} blocks, expected {}.", blocks.size(), count);
  std::vector<stages::StageTimes> times(static_cast<size_t>(mesh.stages()));
  auto block = blocks.begin();
  for (size_t stage = 0; stage < times.size(); ++stage) {
    for (int i = 0; i < mesh.cuts[stage]; ++i, ++block) times[stage] += *block;
  }
  stages::StageTimes all;
  for (const stages::StageTimes& of_stage : times) all += of_stage;
  const stages::StageTiming timing = stages::timing_of(mesh.schedule, times);
  const auto ranks = static_cast<int>(mesh.sizes.pipeline);
  return {.of_rank = timing.idle_shares,
          .mean = timing.idle_share,
          .equal_stages = stages::idle_share_formula(mesh.schedule_name, ranks, mesh.stages() / ranks,
                                                     mesh.schedule.micro_batches, all)};
}

}  // namespace fsdp::plan
