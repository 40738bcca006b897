#include "plan/sharded_run.h"

#include <algorithm>
#include <cmath>

#include "plan/pytorch_work.h"
#include "plan/unit_collectives.h"
#include "plan/unit_times.h"

namespace fsdp::plan {

namespace {

class RunTimes {
 public:
  RunTimes(const ShardedRun& run, const ShardedEngine& engine, const Hardware& hardware)
      : run_(run),
        engine_(engine),
        hardware_(hardware),
        bandwidth_(hardware.memory_bandwidth * hardware.memory_efficiency),
        pass_(run.pass) {
    pass_.is_fused = engine.is_fused;
  }

  ShardedStep step() const {
    ShardedStep step;
    const EndsWork ends = pytorch_ends(run_.shape, pass_);
    const auto root = static_cast<double>(run_.root_parameters());
    step.root = {.forward = forward(ends.embedding_forward),
                 .backward = backward(ends.embedding_backward),
                 .gather = gather(root),
                 .reduce = reduction(root)};
    step.head = forward(ends.head_forward).then(backward(ends.head_backward));
    step.units = units();
    step.micro_batches = run_.micro_batches;
    step.gathers = engine_.is_divided;
    step.gathers_again = run_.gathers_again;
    step.gathers_each_micro_batch = run_.gathers_again || run_.reduces_each_micro_batch;
    step.reduces_each_micro_batch = run_.reduces_each_micro_batch;
    step.host_seconds_of_step = engine_.host_of_step;
    step.host_seconds_of_unit = engine_.host_of_unit;
    step.copy_seconds_of_layer = engine_.copy_bytes * static_cast<double>(run_.shape.block_parameters()) / bandwidth_;
    step.update_seconds = update();
    step.slowdown.of_compute = run_.ranks > 1 ? engine_.slowdown : 1;
    return step;
  }

 private:
  WorkTime forward(const std::vector<Work>& works) const {
    return time_of(works, hardware_, engine_.launch_forward, pass_.element);
  }
  WorkTime backward(const std::vector<Work>& works) const {
    return time_of(works, hardware_, engine_.launch_backward, pass_.element);
  }

  std::vector<TimedUnit> units() const {
    std::vector<TimedUnit> units = units_of_layers(layers(), run_.layers_per_unit);
    if (run_.is_one_unit()) return units;
    for (TimedUnit& unit : units) {
      const auto parameters = static_cast<double>(unit.layers * run_.shape.block_parameters());
      unit.gather = gather(parameters);
      unit.reduce = reduction(parameters);
    }
    return units;
  }

  std::vector<TimedUnit> layers() const {
    const BlockWork work = pytorch_block(run_.shape, pass_, hardware_);
    TimedUnit kept{.forward = forward(work.forward), .backward = backward(work.backward)};
    if (run_.is_selective) kept.backward = backward(work.again_selective).then(kept.backward);
    TimedUnit again = kept;
    if (!run_.is_selective) again.backward = backward(work.forward).then(kept.backward);
    std::vector<TimedUnit> layers(static_cast<size_t>(run_.shape.layers), kept);
    const auto recomputed = static_cast<size_t>(std::clamp<int64_t>(run_.recomputed, 0, run_.shape.layers));
    std::fill_n(layers.begin(), recomputed, again);
    return layers;
  }

  Ring ring_of(int64_t ranks) const { return {ranks, hardware_.hosts_for(ranks)}; }

  double gather(double parameters) const {
    if (run_.ranks == 1) return 2 * static_cast<double>(pass_.element) * parameters / bandwidth_;
    return unit_gather(run_, parameters, hardware_).seconds(hardware_);
  }

  double reduction(double parameters) const {
    return reduction_seconds(unit_reduction(run_, parameters, engine_, hardware_), parameters, engine_, hardware_);
  }

  double update() const {
    const double of_rank =
        static_cast<double>(run_.shape.parameters()) / static_cast<double>(engine_.is_divided ? run_.group : 1);
    const auto tensors = static_cast<double>(run_.shape.layers * run_.shape.block_tensors() + 4);
    return update_seconds({.parameters = of_rank, .tensors = tensors, .clips = run_.clips, .all = ring_of(run_.ranks)},
                          engine_, hardware_);
  }

  const ShardedRun& run_;
  const ShardedEngine& engine_;
  const Hardware& hardware_;
  double bandwidth_;
  PassShape pass_;
};

}  // namespace

ShardedStep sharded_step(const ShardedRun& run, const ShardedEngine& engine, const Hardware& hardware) {
  return RunTimes(run, engine, hardware).step();
}

StepSeconds step_seconds(const ShardedRun& run, const ShardedEngine& engine, const Hardware& hardware) {
  StepSeconds seconds = time_of(sharded_step(run, engine, hardware));
  const double beyond = static_cast<double>(run.ranks) / static_cast<double>(hardware.ranks_per_host);
  const double skew = seconds.step * engine.skew * std::max(0.0, std::log2(beyond));
  seconds.step += skew;
  seconds.idle += skew;
  return seconds;
}

}  // namespace fsdp::plan
