// Times pieces of work on all ranks of a host at once.
#pragma once

#include <fsdp/world.h>

#include <functional>
#include <vector>

namespace calibration {

// How long a host is measured.
struct Effort {
  int rounds = 3;        // of all works
  double window = 0.05;  // seconds of a work in a round; it is called three times at least
  int steps = 7;         // of each small model, behind two that allocate memory
};
inline constexpr Effort kLittleEffort = {.rounds = 1, .window = 0, .steps = 2};

// Owned by one rank; one thread. Each rank adds the same works in the same order. A round runs each work for
// the effort's window; the time of a work is the median of a round's calls, the least of
// rounds, and the mean over ranks. So a disturbance of seconds spoils no figure.
class Stopwatch {
 public:
  Stopwatch(fsdp::World& world, const Effort& effort) : world_(world), effort_(effort) {}

  // Returns the number of the work. It is called many times; the first call is not timed.
  size_t add(std::function<void()> work);
  // A collective.
  void run();
  // Seconds of one call, once `run` has returned.
  double seconds(size_t number) const { return seconds_.at(number); }

 private:
  double round_of(const std::function<void()>& work);

  fsdp::World& world_;
  Effort effort_;
  std::vector<std::function<void()>> works_;
  std::vector<double> seconds_;
};

// The mean over the ranks. A collective.
double mean_of_ranks(fsdp::World& world, double value);

double median(std::vector<double> values);

}  // namespace calibration
