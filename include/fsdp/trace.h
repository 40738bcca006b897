// A timeline of one rank's work on a sharded model or a pipeline, for chrome://tracing and https://ui.perfetto.dev.
#pragma once

#include <filesystem>
#include <memory>

#include "fsdp/movable.h"

namespace fsdp {

namespace report {
class RunningTrace;
}

// A scope that records, from `ShardedModel::trace` until `write` or the destructor, when each unit was used, gathered
// and reduced, and this rank's waits (docs/tracing.md). From `Pipeline::trace` it records the actions of the schedule,
// the waits for other stages and the idle times as well. A model has one trace at a time.
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

  // Ends the scope, and writes an array of Chrome trace events, in microseconds of the steady clock, which all ranks of
  // a host share. Each of several ranks writes its own file: rank 0 of the job writes step.rank0.json for step.json.
  // On a mesh the trace names the rank's coordinates. Returns the file's name. Not a collective. Throws `Error` if the
  // file cannot be written, or if the trace has ended.
  std::filesystem::path write(const std::filesystem::path& path);

 private:
  detail::Movable<"Trace", std::shared_ptr<report::RunningTrace>> running_;  // null once it has ended
};

}  // namespace fsdp
