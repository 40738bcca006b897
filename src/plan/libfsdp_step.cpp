#include "plan/libfsdp_step.h"

#include <algorithm>

#include "base/error.h"
#include "plan/collective_time.h"
#include "plan/cpu_work.h"
#include "plan/sharded_setup.h"
#include "plan/timed_operator.h"

namespace fsdp::plan {

namespace {

constexpr UnitId kRoot = 0;
WorkTime share_of(const WorkTime& work, double share) {
  return {.host = share * work.host, .device = share * work.device, .joint = share * work.joint};
}

// A head takes a third of its time in the forward. Its weight has a gradient of its own, if it is not the embedding.
constexpr double kHeadForward = 1.0 / 3;

TrainingStep training_step(const ShardedStep& step, const ShardedRun& run) {
  TrainingStep training;
  training.micro_batches = static_cast<int>(step.micro_batches);
  const auto unit_of = [&run](size_t i) { return run.is_one_unit() ? kRoot : static_cast<UnitId>(i + 1); };
  training.forward.push_back(timed_operator(step.root.forward, {kRoot}));
  for (size_t i = 0; i < step.units.size(); ++i)
    training.forward.push_back(timed_operator(step.units[i].forward, {unit_of(i)}));
  training.forward.push_back(timed_operator(share_of(step.head, kHeadForward), {kRoot}));
  training.backward.push_back(timed_operator(share_of(step.head, 1 - kHeadForward), {kRoot}));
  if (!run.shape.is_tied) training.backward.back().gradients = {{.unit = kRoot}};
  for (size_t i = step.units.size(); i-- > 0;) {
    const UnitId unit = unit_of(i);
    training.backward.push_back(timed_operator(step.units[i].backward, {unit}));
    training.backward.back().gradients = {{.unit = unit}};
  }
  training.backward.push_back(timed_operator(step.root.backward, {}));  // a lookup's backward reads no parameters
  training.backward.back().gradients = {{.unit = kRoot}};
  return training;
}

ShardedStep step_on_cpus(const ShardedRun& run, const Hardware& hardware) {
  const CpuShare* share = share_of(hardware.shares, run.ranks, run.pass.element);
  FSDP_CHECK(share != nullptr,
             "hardware '{}': found no share for elements of {} bytes, expected one. Calibrate it again.", hardware.name,
             run.pass.element);
  return cpu_step(run, *share, hardware);
}

// The way in which the device and the engine let work and communication run beside each other.
void set_order(const ShardedRun& run, const ShardedEngine& engine, const Hardware& hardware, StepDurations& durations) {
  if (hardware.has_cpus()) {
    durations.beside = false;
    return;
  }
  durations.launch = kLaunchSeconds;
  durations.slowdown = run.ranks > 1 ? engine.slowdown - 1 : 0;
  durations.runs_ahead = true;
  durations.one_stream = true;
}

}  // namespace

StepSeconds libfsdp_step(const LibfsdpRun& libfsdp, const ShardedEngine& engine, const Hardware& hardware) {
  const ShardedRun& run = libfsdp.run;
  const ShardedStep step = hardware.has_cpus() ? step_on_cpus(run, hardware) : sharded_step(run, engine, hardware);
  const int units = run.is_one_unit() ? 1 : static_cast<int>(step.units.size()) + 1;
  RankToSimulate rank = rank_of({.strategy = libfsdp.strategy,
                                 .units = units,
                                 .ranks = static_cast<int>(run.ranks),
                                 .shards = static_cast<int>(run.group),
                                 .buffers = libfsdp.buffers,
                                 .prefetch = libfsdp.prefetch,
                                 .way = hardware.has_cpus() ? GatherWay::SharedMemory : GatherWay::Streams});
  StepDurations& durations = rank.durations;
  durations.gather.assign(static_cast<size_t>(units), 0);
  durations.reduce.assign(static_cast<size_t>(units), 0);
  durations.update.assign(static_cast<size_t>(units), 0);
  const auto all = static_cast<double>(run.shape.parameters());
  for (int unit = 0; unit < units; ++unit) {
    const auto i = static_cast<size_t>(unit);
    const TimedUnit& timed = unit == kRoot ? step.root : step.units[i - 1];
    const auto own =
        static_cast<double>(unit == kRoot ? run.root_parameters() : timed.layers * run.shape.block_parameters());
    if (run.group > 1) durations.gather[i] = timed.gather;
    if (run.ranks > 1) durations.reduce[i] = timed.reduce;
    durations.update[i] = step.update_seconds * own / all;
  }
  durations.message =
      collective_seconds(Collective::AllReduce, 0, {run.ranks, hardware.hosts_for(run.ranks)}, hardware);
  set_order(run, engine, hardware, durations);
  const TrainingStep training = training_step(step, run);
  const double seconds = steady_totals(rank, training).step;
  // The same step, where communication takes no time.
  durations.gather.clear();
  durations.reduce.clear();
  durations.message = durations.slowdown = 0;
  const StepTotals alone = steady_totals(std::move(rank), training);
  return {.step = seconds,
          .compute = alone.compute + alone.optimizer,
          .exposed_communication = std::max(0.0, seconds - alone.step),
          .idle = alone.idle};
}

}  // namespace fsdp::plan
