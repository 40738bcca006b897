#include "planning/scaling_curves.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/model_config.h"
#include "options/frozen.h"
#include "planning/plan_numbers.h"
#include "planning/planned_time.h"

namespace trainer {

namespace {

using fsdp::plan::StepSeconds;
using fsdp::plan::UnitCollective;

LayerCollectives beside_pass(std::vector<UnitCollective> all, bool is_forward, double compute,
                             const fsdp::plan::Hardware& hardware) {
  std::erase_if(all, [](const UnitCollective& one) { return one.ring.ranks == 1; });
  LayerCollectives layer{.all = std::move(all), .is_forward = is_forward, .compute = compute};
  for (const UnitCollective& one : layer.all) {
    layer.seconds += one.seconds(hardware);
    layer.latency += one.latency(hardware);
  }
  return layer;
}

LayerCollectives layer_collectives(const SimulatedRun& simulated, const fsdp::plan::Hardware& hardware) {
  const auto& [run, engine] = simulated;
  const fsdp::plan::ShardedStep step = sharded_step(run, engine, hardware);
  if (step.units.empty()) return {};
  const auto parameters = static_cast<double>(step.units.front().layers * run.shape.block_parameters());
  std::vector<UnitCollective> gathers, all;
  if (engine.is_divided) gathers.push_back(unit_gather(run, parameters, hardware));
  if (run.gathers_again) all = gathers;
  for (const UnitCollective& one : unit_reduction(run, parameters, engine, hardware)) all.push_back(one);
  LayerCollectives forward = beside_pass(gathers, true, step.units.front().forward.device, hardware);
  LayerCollectives backward = beside_pass(all, false, step.units.front().backward.device, hardware);
  return forward.seconds * backward.compute > backward.seconds * forward.compute ? forward : backward;
}

// The seconds of a step that the slowdown of computation beside collectives costs.
double cost_of_slowdown(SimulatedRun simulated, double step, const PlanTarget& target, const RunOptions& options) {
  simulated.engine.slowdown = 1;
  return std::max(0.0, step - step_of(simulated, target, options).step);
}

double flops_of_token(const RunOptions& options) {
  return models::flops_per_token(options.model, options.model.context, frozen_parameters(options));
}

// `options.ranks` lie on hosts of the hardware's size.
CurvePoint point_of(PlanTarget target, const RunOptions& options, double flops_of_token,
                    const ScalingSettings& settings) {
  target.has_skew = false;
  target.hosts = target.hardware.hosts_for(options.ranks);
  const std::optional<SimulatedRun> simulated = simulated_run(target, options);
  if (!simulated)
    throw fsdp::Error(
        "scaling: the time of such a run is not simulated. Leave out --pipeline-parallel, --tensor-parallel and the "
        "options that offload.");
  const StepSeconds step = step_of(*simulated, target, options);
  const auto tokens = static_cast<double>(options.batch * options.micro_batches * options.model.context);
  CurvePoint point{.job = scaling_point(step, options.ranks, target.hosts, flops_of_token * tokens, settings.cluster),
                   .ranks_per_host = target.hardware.ranks_per_host,
                   .batch = options.batch,
                   .micro_batches = options.micro_batches,
                   .fits = memory_of_plan(target, options).peak <= target.memory,
                   .layer = layer_collectives(*simulated, target.hardware)};
  point.job.slowdown = cost_of_slowdown(*simulated, step.step, target, options);
  return point;
}

// As many sequences of a micro-batch as divide those of the rank.
void divide_batch(RunOptions& options, int64_t sequences) {
  options.batch = std::gcd(options.batch, sequences);
  options.micro_batches = sequences / options.batch;
}

RunOptions job_of(const RunOptions& options, int64_t ranks, const ScalingSettings& settings) {
  RunOptions job = options;
  job.ranks = ranks;
  if (settings.global_batch) divide_batch(job, *settings.global_batch / ranks);
  return job;
}

}  // namespace

std::vector<int64_t> ranks_of_curve(const ScalingSettings& settings, int64_t ranks_per_host) {
  const int64_t most = settings.most_ranks / ranks_per_host * ranks_per_host;
  std::vector<int64_t> all;
  for (int64_t ranks = ranks_per_host; ranks < most; ranks *= 2) all.push_back(ranks);
  if (most > 0) all.push_back(most);
  if (settings.global_batch) std::erase_if(all, [&](int64_t ranks) { return *settings.global_batch % ranks != 0; });
  if (all.empty() && settings.global_batch)
    throw fsdp::Error(fmt::format("scaling: --global-batch is {}; it must be a multiple of the {} ranks of a host.",
                                  *settings.global_batch, ranks_per_host));
  if (all.empty())
    throw fsdp::Error(fmt::format("scaling: --most-ranks is {}; it must be at least the {} ranks of a host.",
                                  settings.most_ranks, ranks_per_host));
  return all;
}

ScalingCurve scaling_curve(const PlanTarget& target, const RunOptions& options, const ScalingSettings& settings) {
  ScalingCurve curve{.strategy = options.strategy, .points = {}};
  const double flops = flops_of_token(options);
  for (const int64_t ranks : ranks_of_curve(settings, target.hardware.ranks_per_host)) {
    curve.points.push_back(point_of(target, job_of(options, ranks, settings), flops, settings));
  }
  std::vector<fsdp::plan::ScalingPoint> jobs;
  for (const CurvePoint& point : curve.points) jobs.push_back(point.job);
  curve.bends = fsdp::plan::bends_of(jobs, kNoticed);
  return curve;
}

ScalingCurve host_curve(const PlanTarget& target, const RunOptions& options, const ScalingSettings& settings) {
  ScalingCurve curve{.strategy = options.strategy, .points = {}};
  RunOptions job = options;
  job.ranks = settings.devices;
  PlanTarget hosts = target;
  const double flops = flops_of_token(options);
  for (int64_t of_host = 1; of_host <= std::min(settings.devices, kLargestHost); of_host *= 2) {
    if (settings.devices % of_host != 0) continue;
    hosts.hardware.ranks_per_host = of_host;
    curve.points.push_back(point_of(hosts, job, flops, settings));
  }
  return curve;
}

}  // namespace trainer
