#include "plan/sharded_step.h"

#include <algorithm>
#include <optional>

namespace fsdp::plan {

namespace {

using Place = std::optional<size_t>;  // of a task

class ShardedTasks {
 public:
  explicit ShardedTasks(const ShardedStep& step) : step_(step) {}

  std::vector<StreamTask> all() {
    host(step_.host_seconds_of_step);
    for (int64_t i = 0; i < step_.micro_batches; ++i) {
      forward(step_.gathers && (i == 0 || step_.gathers_each_micro_batch));
      compute(step_.head, {});
      backward(step_.reduces_each_micro_batch || i + 1 == step_.micro_batches);
    }
    return std::move(tasks_);
  }
  double compute_seconds() const { return compute_seconds_; }

 private:
  size_t add(StreamTask task) {
    tasks_.push_back(std::move(task));
    return tasks_.size() - 1;
  }
  static std::vector<size_t> known(std::initializer_list<Place> places) {
    std::vector<size_t> all;
    for (const Place& place : places) {
      if (place) all.push_back(*place);
    }
    return all;
  }

  void host(double seconds) { last_launch_ = add({.stream = Stream::Host, .seconds = seconds}); }

  // Operators that the host launches one by one.
  void compute(const WorkTime& work, Place gathered, double host_seconds = 0, double copy_seconds = 0) {
    host(host_seconds);
    const Place begun = last_launch_;
    host(work.host);
    before_last_ = last_compute_;
    last_compute_ = add({.stream = Stream::Compute,
                         .seconds = work.device + copy_seconds,
                         .after = known({begun, gathered}),
                         .ends_after = known({last_launch_}),
                         .tail = std::max(0.0, work.joint - work.host)});
    compute_seconds_ += work.device + copy_seconds;
  }

  double copy_seconds(const TimedUnit& unit) const {
    return static_cast<double>(unit.layers) * step_.copy_seconds_of_layer;
  }

  // When the unit before the last one has computed, its memory is free for this gather.
  Place gather(double seconds, Place freed) {
    if (seconds == 0) return std::nullopt;
    return add({.stream = Stream::Gather, .seconds = seconds, .after = known({last_launch_, freed})});
  }
  void reduce(double seconds) {
    if (seconds == 0) return;
    add({.stream = Stream::Gather, .seconds = seconds, .after = known({last_launch_, last_compute_})});
  }

  void forward(bool gathers) {
    Place root;
    if (gathers) root = gather(step_.root.gather, last_compute_);
    compute(step_.root.forward, root, step_.host_seconds_of_unit);
    before_last_ = std::nullopt;
    for (const TimedUnit& unit : step_.units) {
      Place gathered;
      if (gathers) gathered = gather(unit.gather, before_last_);
      compute(unit.forward, gathered, step_.gathers ? step_.host_seconds_of_unit : 0,
              gathered ? copy_seconds(unit) : 0);
    }
  }

  void backward(bool reduces) {
    const bool gathers = step_.gathers && step_.gathers_again;
    Place gathered;
    if (gathers && !step_.units.empty()) gathered = gather(step_.units.back().gather, before_last_);
    for (size_t i = step_.units.size(); i-- > 0;) {
      const TimedUnit& unit = step_.units[i];
      Place next;
      if (gathers && i > 0) next = gather(step_.units[i - 1].gather, before_last_);
      compute(unit.backward, gathered, step_.gathers ? kBackwardHost * step_.host_seconds_of_unit : 0,
              gathers ? copy_seconds(unit) : 0);
      if (reduces) reduce(unit.reduce);
      gathered = next;
    }
    compute(step_.root.backward, {});
    if (reduces) reduce(step_.root.reduce);
  }

  static constexpr double kBackwardHost = 1.5;

  const ShardedStep& step_;
  std::vector<StreamTask> tasks_;
  Place last_launch_, last_compute_, before_last_;
  double compute_seconds_ = 0;
};

double end_of(const std::vector<StreamTask>& tasks, const StreamSlowdown& slowdown) {
  double end = 0;
  for (const TaskInterval& interval : time_tasks(tasks, slowdown)) end = std::max(end, interval.end);
  return end;
}

}  // namespace

std::vector<TimedUnit> units_of_layers(const std::vector<TimedUnit>& layers, int64_t per_unit) {
  std::vector<TimedUnit> units;
  const auto size = static_cast<size_t>(std::max<int64_t>(1, per_unit));
  for (size_t first = 0; first < layers.size(); first += size) {
    const size_t end = std::min(layers.size(), first + size);
    TimedUnit unit{.forward = layers[first].forward,
                   .backward = layers[first].backward,
                   .layers = static_cast<int64_t>(end - first)};
    for (size_t i = first + 1; i < end; ++i) {
      unit.forward = unit.forward.then(layers[i].forward);
      unit.backward = layers[i].backward.then(unit.backward);
    }
    units.push_back(unit);
  }
  return units;
}

StepSeconds time_of(const ShardedStep& step) {
  ShardedTasks builder(step);
  std::vector<StreamTask> tasks = builder.all();
  const double end = end_of(tasks, step.slowdown);
  for (StreamTask& task : tasks) {
    if (communicates(task.stream)) task.seconds = 0;
  }
  const double alone = end_of(tasks, {});
  StepSeconds seconds;
  seconds.step = end + step.update_seconds;
  seconds.compute = builder.compute_seconds() + step.update_seconds;
  seconds.exposed_communication = std::max(0.0, end - alone);
  seconds.idle = std::max(0.0, seconds.step - seconds.compute - seconds.exposed_communication);
  return seconds;
}

}  // namespace fsdp::plan
