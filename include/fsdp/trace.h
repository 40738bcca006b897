// A timeline of one rank's work on a sharded model, for chrome://tracing and https://ui.perfetto.dev.
#pragma once

#include <filesystem>
#include <memory>

#include "fsdp/movable.h"

namespace fsdp {

namespace engine {
class Model;
}

// A scope that records, from `ShardedModel::trace` on until `write` or the destructor: when each unit was computed
// with, gathered and reduced, and what this rank waited for (docs/tracing.md). A model has one at a time.
//
//   auto trace = sharded.trace();
//   ...                        // a step, or a few
//   trace.write("step.json");
class Trace {
 public:
  explicit Trace(std::shared_ptr<engine::Model> model);
  Trace(Trace&&) noexcept = default;
  Trace& operator=(Trace&&) = delete;
  ~Trace();

  // Ends the scope, and writes it as an array of Chrome's trace events, in microseconds of the steady clock, which all
  // ranks of a host share. Each rank writes a file of its own: step.json is step.rank0.json on the first of several.
  // Returns the file's name. No collective. Throws `Error` when the file cannot be written, or when the trace has
  // ended.
  std::filesystem::path write(const std::filesystem::path& path);

 private:
  detail::Movable<"Trace", std::shared_ptr<engine::Model>> model_;  // null once it has ended
};

}  // namespace fsdp
