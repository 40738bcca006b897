#include "plan/mesh_step.h"

#include <algorithm>
#include <optional>

#include "plan/pipeline_simulation.h"
#include "plan/sharded_setup.h"
#include "plan/timed_operator.h"
#include "stages/rewrites.h"
#include "stages/schedules.h"

namespace fsdp::plan {

namespace {

constexpr int kMeasuredStep = 2;  // the third step, which all later ones repeat

double unit_numel(const Unit& unit) {
  double numel = 0;
  for (const Parameter& parameter : unit) numel += static_cast<double>(parameter.numel);
  return numel;
}

bool unit_is_trained(const Unit& unit) { return std::ranges::any_of(unit, &Parameter::is_trained); }

// From a run on a mesh to a pipeline that can be simulated.
class MeshToSimulate {
 public:
  MeshToSimulate(const MeshStep& step, const MeshPlaces& places, const ShardedEngine& engine, const Hardware& hardware)
      : step_(step),
        places_(places),
        engine_(engine),
        hardware_(hardware),
        mesh_(step.run.mesh),
        times_(block_times(step.run.blocks, step.model, step.run.tensors, tensor_ring(places), engine, hardware)) {}

  PipelineToSimulate pipeline(const stages::StageSchedule& schedule) const {
    PipelineToSimulate pipeline;
    pipeline.schedule = stages::without_idle(schedule);
    if (schedule.rank_count() > 1) pipeline.schedule = stages::add_messages(pipeline.schedule);
    pipeline.stages.resize(static_cast<size_t>(mesh_.stages()));
    for (int rank = 0; rank < mesh_.sizes.pipeline; ++rank) {
      const RankUnits units = units_of_rank(mesh_, step_.run.blocks, rank);
      add_stages(units, rank, pipeline.stages);
      pipeline.ranks.push_back(rank_of_stage(units.units, rank));
    }
    pipeline.messages = stage_message_seconds(mesh_, places_, step_.run.message_bytes, hardware_);
    pipeline.meeting = collective_seconds(Collective::AllReduce, 0, pipeline_ring(places_), hardware_);
    return pipeline;
  }

 private:
  double update_of(const std::vector<Unit>& units) const {
    double parameters = 0, tensors = 0;
    for (const Unit& unit : units) {
      parameters += unit_numel(unit);
      tensors += static_cast<double>(unit.size());
    }
    const int64_t ranks = ranks_of(mesh_.sizes);
    return update_seconds({.parameters = parameters / static_cast<double>(step_.run.sharding.group),
                           .tensors = tensors,
                           .clips = step_.clips,
                           .all = {ranks, places_.hosts()}},
                          engine_, hardware_);
  }

  PipelineRank rank_of_stage(const std::vector<Unit>& units, int rank) const {
    const Sharding& sharding = step_.run.sharding;
    const RankToSimulate setup = rank_of({.strategy = step_.strategy,
                                          .units = static_cast<int>(units.size()),
                                          .ranks = static_cast<int>(sharding.ranks),
                                          .shards = static_cast<int>(sharding.group),
                                          .buffers = static_cast<int>(sharding.buffers),
                                          .prefetch = step_.prefetch});
    PipelineRank simulated{.facts = setup.facts, .limits = setup.limits};
    StepDurations& durations = simulated.durations;
    const UnitRings rings = data_rings(places_, rank, sharding.group);
    double all = 0;
    for (const Unit& unit : units) all += unit_numel(unit);
    const double update = update_of(units);
    for (const Unit& unit : units) {
      const double numel = unit_numel(unit);
      durations.gather.push_back(unit_gather(numel, sharding.param_bytes, rings).seconds(hardware_));
      const std::vector<UnitCollective> reduction = unit_reduction(numel, sharding.reduce_bytes, rings);
      durations.reduce.push_back(sharding.ranks == 1 ? 0 : reduction_seconds(reduction, numel, engine_, hardware_));
      durations.update.push_back(update * numel / all);
    }
    const Ring data{sharding.ranks, rings.group.hosts * rings.replicas.hosts};
    durations.message = collective_seconds(Collective::AllReduce, 0, data, hardware_);
    durations.launch = kLaunchSeconds;
    durations.slowdown = sharding.ranks > 1 ? engine_.slowdown - 1 : 0;
    durations.runs_ahead = true;
    durations.one_stream = true;
    return simulated;
  }

  void add_stages(const RankUnits& units, int rank, std::vector<StageWork>& all) const {
    for (const int stage : mesh_.stages_of(rank)) {
      StageWork& work = all[static_cast<size_t>(stage)];
      for (int i = mesh_.first_block(stage); i < mesh_.end_block(stage); ++i) {
        const std::optional<size_t> unit = units.of_block[static_cast<size_t>(i)];
        if (unit) add_block(static_cast<size_t>(i), static_cast<UnitId>(*unit), work);
      }
      for (Pass* pass : {&work.backward, &work.input_gradient, &work.weight_gradient}) std::ranges::reverse(*pass);
    }
  }

  // Backwards are put together from their ends.
  void add_block(size_t i, UnitId unit, StageWork& work) const {
    const Block& block = step_.run.blocks[i];
    const BlockTimes& times = times_[i];
    const std::vector<UnitId> read = block.is_lookup ? std::vector<UnitId>() : std::vector{unit};
    work.forward.push_back(timed_operator(times.forward, {unit}));
    work.backward.push_back(timed_operator(times.backward, read));
    if (!block.is_lookup) work.input_gradient.push_back(timed_operator(times.input_gradient(), read));
    work.weight_gradient.push_back(timed_operator(times.weight_gradient, {}));
    if (unit_is_trained(block.parameters)) {
      work.backward.back().gradients = {{.unit = unit}};
      work.weight_gradient.back().gradients = {{.unit = unit}};
    }
    if (std::ranges::find(work.units, unit) == work.units.end()) work.units.push_back(unit);
  }

  const MeshStep& step_;
  const MeshPlaces& places_;
  const ShardedEngine& engine_;
  const Hardware& hardware_;
  const Mesh& mesh_;
  std::vector<BlockTimes> times_;
};

// Totals of a step: means of the stages' ranks, but for its end.
struct MeshTotals {
  double step = 0, compute = 0, makespan = 0, idle = 0;

  MeshTotals plus(const MeshTotals& later, double times) const {
    return {.step = step + times * (later.step - step),
            .compute = compute + times * (later.compute - compute),
            .makespan = makespan + times * (later.makespan - makespan),
            .idle = idle + times * (later.idle - idle)};
  }
};

MeshTotals totals_of(const PipelineToSimulate& pipeline) {
  const SimulatedPipelineStep step = simulate_pipeline(pipeline, kMeasuredStep + 1).back();
  MeshTotals totals{.step = step.step, .makespan = step.makespan, .idle = step.idle_share * step.makespan};
  for (const SimulatedStep& rank : step.ranks)
    totals.compute += (rank.totals.compute + rank.totals.optimizer) / static_cast<double>(step.ranks.size());
  return totals;
}

// A period of a schedule is as many micro-batches as its pipeline has ranks.
MeshTotals totals_of(const MeshToSimulate& simulated, const Mesh& mesh) {
  const auto period = static_cast<int>(mesh.sizes.pipeline), all = mesh.schedule.micro_batches;
  const int most = std::max(4, 3 * period);
  if (all <= most + period) return totals_of(simulated.pipeline(mesh.schedule));
  const int periods = (all - most + period - 1) / period, fewer = all - periods * period;
  const auto of = [&](int micro_batches) {
    return totals_of(simulated.pipeline(mesh_of(mesh.sizes, mesh.cuts, mesh.schedule_name, micro_batches).schedule));
  };
  return of(fewer).plus(of(fewer + period), periods);
}

// The same step, where communication takes no time.
MeshStep without_communication(const MeshStep& step) {
  MeshStep alone = step;
  alone.run.tensors.bytes = alone.run.message_bytes = 0;
  return alone;
}
Hardware without_network(Hardware hardware) {
  hardware.local_latency = hardware.local_rank_latency = hardware.rank_latency = hardware.host_latency = 0;
  hardware.local_bandwidth = hardware.network_bandwidth = 1e30;
  hardware.all_reduces.clear();
  return hardware;
}

// The whole gradient of a tied embedding goes to its copy behind the last backward.
double tied_seconds(const MeshRun& run, const MeshPlaces& places, const Hardware& hardware) {
  constexpr double kWholeElement = 4;
  if (run.tied.numel == 0 || run.mesh.sizes.pipeline == 1) return 0;
  const bool is_within = places.host_of({}) == places.host_of({.pipeline = run.mesh.sizes.pipeline - 1});
  return message_seconds(kWholeElement * static_cast<double>(run.tied.numel), is_within, hardware);
}

}  // namespace

MeshSeconds mesh_seconds(const MeshStep& step, const MeshPlaces& places, const ShardedEngine& engine,
                         const Hardware& hardware) {
  const MeshTotals totals = totals_of({step, places, engine, hardware}, step.run.mesh);
  const MeshStep quiet = without_communication(step);
  const Hardware offline = without_network(hardware);
  ShardedEngine undisturbed = engine;
  undisturbed.slowdown = 1;
  undisturbed.reduction_bytes = 0;
  const MeshTotals alone = totals_of({quiet, places, undisturbed, offline}, step.run.mesh);
  const double tied = tied_seconds(step.run, places, hardware);
  return {.step = {.step = totals.step + tied,
                   .compute = alone.compute,
                   .exposed_communication = std::max(0.0, totals.step - alone.step) + tied,
                   .idle = std::max(0.0, std::min(alone.step, totals.step) - alone.compute)},
          .idle_share = totals.makespan > 0 ? totals.idle / totals.makespan : 0};
}

}  // namespace fsdp::plan
