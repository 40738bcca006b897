#include "plan/streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"

namespace fsdp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

void check_places(const std::vector<StreamTask>& tasks, size_t task, const std::vector<size_t>& others) {
  for (const size_t other : others) {
    if (other >= tasks.size())
      throw Error(
          fmt::format("streams in time: task {} waits for task {}, and there are {}", task, other, tasks.size()));
  }
}

void check(const std::vector<StreamTask>& tasks, const StreamSlowdown& slowdown) {
  const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds >= 0; };
  const auto is_factor = [](double factor) { return std::isfinite(factor) && factor >= 1; };
  if (!is_factor(slowdown.of_compute) || !is_factor(slowdown.of_communication))
    throw Error(fmt::format("streams in time: slowdowns of {} and {}; each has to be a number of at least 1",
                            slowdown.of_compute, slowdown.of_communication));
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!is_time(tasks[i].seconds) || !is_time(tasks[i].tail))
      throw Error(
          fmt::format("streams in time: task {} takes {} s; a time is finite and not negative", i, tasks[i].seconds));
    check_places(tasks, i, tasks[i].after);
    check_places(tasks, i, tasks[i].ends_after);
  }
}

class StreamClock {
 public:
  StreamClock(const std::vector<StreamTask>& tasks, const StreamSlowdown& slowdown)
      : tasks_(tasks), slowdown_(slowdown), is_over_(tasks.size(), 0), intervals_(tasks.size()) {
    for (size_t i = 0; i < tasks.size(); ++i) queues_[static_cast<size_t>(tasks[i].stream)].push_back(i);
  }

  std::vector<TaskInterval> run() {
    size_t left = tasks_.size();
    while (left > 0) {
      begin_ready();
      const double at = next_end();
      if (at == kNever) throw Error(circle_text());
      left -= advance(at);
    }
    return std::move(intervals_);
  }

 private:
  struct Running {
    size_t task = 0;
    double left = 0;  // seconds alone
  };

  bool are_over(const std::vector<size_t>& tasks) const {
    return std::ranges::all_of(tasks, [&](size_t task) { return is_over_[task] != 0; });
  }
  // A task whose work is done may end then; kNever: not known yet.
  double may_end_at(const Running& running) const {
    const StreamTask& task = tasks_[running.task];
    double end = now_;
    for (const size_t other : task.ends_after)
      end = std::max(end, is_over_[other] != 0 ? intervals_[other].end + task.tail : kNever);
    return end;
  }

  void begin_ready() {
    for (size_t s = 0; s < kStreams; ++s) {
      if (running_[s] || next_[s] == queues_[s].size()) continue;
      const size_t task = queues_[s][next_[s]];
      if (!are_over(tasks_[task].after)) continue;
      ++next_[s];
      running_[s] = Running{.task = task, .left = tasks_[task].seconds};
      intervals_[task].begin = now_;
    }
  }

  double slowdown_of(Stream stream) const {
    const bool is_communication = communicates(stream);
    if (stream == Stream::Host) return 1;
    for (size_t s = 0; s < kStreams; ++s) {
      const auto other = static_cast<Stream>(s);
      if (other == Stream::Host || communicates(other) == is_communication) continue;
      if (!running_[s] || running_[s]->left == 0) continue;
      return is_communication ? slowdown_.of_communication : slowdown_.of_compute;
    }
    return 1;
  }

  // When the work of a task ends, or a task whose work is done may end.
  double next_end() const {
    double least = kNever;
    for (size_t s = 0; s < kStreams; ++s) {
      if (!running_[s]) continue;
      const double left = running_[s]->left;
      least = std::min(least, left > 0 ? now_ + left * slowdown_of(static_cast<Stream>(s)) : may_end_at(*running_[s]));
    }
    return least;
  }

  // Returns how many tasks ended.
  size_t advance(double at) {
    std::array<double, kStreams> left{};
    for (size_t s = 0; s < kStreams; ++s) {
      if (!running_[s]) continue;
      const double slowdown = slowdown_of(static_cast<Stream>(s));
      const bool is_done = now_ + running_[s]->left * slowdown <= at;
      left[s] = is_done ? 0 : running_[s]->left - (at - now_) / slowdown;
    }
    now_ = at;
    for (size_t s = 0; s < kStreams; ++s) {
      if (running_[s]) running_[s]->left = left[s];
    }
    size_t count = 0;
    for (auto& running : running_) {
      if (!running || running->left > 0 || may_end_at(*running) > now_) continue;
      intervals_[running->task].end = now_;
      is_over_[running->task] = 1;
      running.reset();
      ++count;
    }
    return count;
  }

  std::string circle_text() const {
    const auto first_left = std::ranges::find(is_over_, 0) - is_over_.begin();
    return fmt::format("streams in time: task {} waits for a task that waits for it", first_left);
  }

  const std::vector<StreamTask>& tasks_;
  StreamSlowdown slowdown_;
  std::array<std::vector<size_t>, kStreams> queues_;
  std::array<size_t, kStreams> next_{};
  std::array<std::optional<Running>, kStreams> running_;
  std::vector<char> is_over_;
  std::vector<TaskInterval> intervals_;
  double now_ = 0;
};

}  // namespace

std::vector<TaskInterval> time_tasks(const std::vector<StreamTask>& tasks, const StreamSlowdown& slowdown) {
  check(tasks, slowdown);
  return StreamClock(tasks, slowdown).run();
}

}  // namespace fsdp::plan
