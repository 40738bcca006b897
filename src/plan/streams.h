// Work on the streams of one rank in time: a discrete-event simulation. Pure.
//
// A stream runs its tasks one after the other, in the order of the list. Streams run beside each other, except where a
// task waits for others. While a rank communicates, its computation is slower: the transfer takes memory bandwidth, and
// on GPUs some of the processors.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace fsdp::plan {

enum class Stream {
  Host,     // the thread that launches the work of the others
  Compute,  // operators of the model, and of the optimizer
  Gather,   // parameters
  Reduce,   // gradients
  Send,     // activations between stages, and sums between parts of a layer
};
inline constexpr size_t kStreams = 5;
constexpr bool communicates(Stream stream) { return stream >= Stream::Gather; }

struct StreamTask {
  Stream stream = Stream::Compute;
  double seconds = 0;              // if it runs alone
  std::vector<size_t> after = {};  // tasks, by their places in the list, that end before this one begins
  // That end before this one ends: operators that a host launches one by one end after the last launch.
  std::vector<size_t> ends_after = {};
  double tail = 0;  // seconds between the last of these ends and its own, at least: of the last operator
};

// Factors above 1 of the time of a task while a task of the other kind runs.
struct StreamSlowdown {
  double of_compute = 1;        // beside communication
  double of_communication = 1;  // beside computation
};

struct TaskInterval {
  double begin = 0, end = 0;  // seconds from the beginning of the first
};

// The intervals of the tasks, by their places. Throws Error for tasks that wait in a circle, for a place that is not in
// the list, and for times that are negative or not finite.
std::vector<TaskInterval> time_tasks(const std::vector<StreamTask>& tasks, const StreamSlowdown& slowdown = {});

}  // namespace fsdp::plan
