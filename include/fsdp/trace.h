// A timeline of one rank's work on a sharded model or a pipeline, for chrome://tracing and https://ui.perfetto.dev.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "fsdp/movable.h"

namespace fsdp {

namespace report {
class RunningTrace;
}

// Options of `ShardedModel::trace` and `Pipeline::trace`.
struct TraceOptions {
  // The most bytes that tensors of LibTorch took since the last call, beyond those at the beginning of a step. The
  // trace has them as "other tensors", without the activations. Called whenever another unit is computed with, on the
  // thread that computes; must not throw or use the model. None: the trace has the model's memory alone.
  std::function<int64_t()> tensor_bytes = nullptr;
};

// A scope that records, from `ShardedModel::trace` until `write` or the destructor, when each unit was used, gathered
// and reduced, this rank's waits, and the memory between two units (docs/tracing.md). From `Pipeline::trace` it records
// the actions of the schedule, the waits for other stages and the idle times as well. A model has one trace at a time.
//
//   auto trace = sharded.trace();
//   ...                        // a step, or a few
//   trace.write("step.json");
class Trace {
 public:
  // For the rest of the library: `ShardedModel::trace` and `Pipeline::trace` begin a trace.
  explicit Trace(std::shared_ptr<report::RunningTrace> running);
  Trace(Trace&&) noexcept = default;
  Trace& operator=(Trace&&) = delete;
  ~Trace();

  // Adds a span of the program itself, in the row "program": a step, or a part of one. Each lies within another, or
  // beside it. Throws `Error` if the trace has ended.
  void add(const std::string& name, std::chrono::steady_clock::time_point begin,
           std::chrono::steady_clock::time_point end);

  // Ends the scope, and returns the text of the file that `write` writes. `shift` is added to each time: the difference
  // to another host's clock, for a trace of several hosts. Throws `Error` if the trace has ended.
  std::string events(std::chrono::nanoseconds shift = {});

  // Ends the scope, and writes an array of Chrome trace events, in microseconds of the steady clock, which all ranks of
  // a host share. Each of several ranks writes its own file: rank 0 of the job writes step.rank0.json for step.json.
  // On a mesh the trace names the rank's coordinates. Returns the file's name. Not a collective. Throws `Error` if the
  // file cannot be written, or if the trace has ended.
  std::filesystem::path write(const std::filesystem::path& path);

 private:
  detail::Movable<"Trace", std::shared_ptr<report::RunningTrace>> running_;  // null once it has ended
};

}  // namespace fsdp
