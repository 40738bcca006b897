// The clock of a simulated rank: the time of its host and its computing stream, and the transfers of its communication
// streams. Each second of the computing stream is counted once, by its cause.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace fsdp::plan {

struct StepDurations;
struct StepTotals;

struct Interval {
  double begin = 0, end = 0;
};

// The cause of a second of the computing stream: work, or a wait.
enum class Cause { Compute, Optimizer, Gathers, Reductions, EndOfBackward, Idle };
inline constexpr size_t kCauses = 6;

// A communication stream: transfers one after the other.
class TransferStream {
 public:
  // A transfer that may begin at `ready`, behind those before. Returns its number.
  size_t begin(double ready, double seconds);
  // It may not begin before `ready` either: peers are late. Transfers behind it move.
  void delay(size_t number, double ready);
  Interval at(size_t number) const { return {transfers_[number].begin, transfers_[number].end}; }
  // Calls `body` with each interval in which it transfers and that ends after `time`. Times do not fall.
  template <typename Body>
  void each_after(double time, Body body) {
    while (first_ < transfers_.size() && transfers_[first_].end <= time) ++first_;
    for (size_t i = first_; i < transfers_.size(); ++i) body(at(i));
  }

 private:
  struct Transfer {
    double begin, end;
    double seconds() const { return end - begin; }
  };
  std::vector<Transfer> transfers_;
  size_t first_ = 0;  // that may end after the last time asked for
};

class StepClock {
 public:
  // The durations outlive it.
  explicit StepClock(const StepDurations& durations) : durations_(durations) {}

  // The end of all that the computing stream has got so far.
  double now() const { return compute_; }
  // The time at which the host asks for something.
  double host() const;
  // The host launches so many operators, which compute for `seconds` in all. Returns when they do.
  Interval launch(int operators, double seconds);
  // Work of the computing stream itself.
  Interval work(double seconds, Cause cause);
  // The computing stream waits; the host as well, unless it runs ahead.
  Interval wait(double until, Cause cause);
  // The host waits; the computing stream as well, unless the host runs ahead.
  Interval host_waits(double until, Cause cause);

  // Each second since the last call, by its cause.
  std::array<double, kCauses> take_spent();

  TransferStream& gathers() { return gathers_; }
  TransferStream& reductions();

 private:
  Interval advance(double until, Cause cause);
  double slowed_end(double begin, double seconds);

  const StepDurations& durations_;
  double host_ = 0, compute_ = 0;
  std::array<double, kCauses> spent_{};
  TransferStream gathers_, reductions_;
};

}  // namespace fsdp::plan
