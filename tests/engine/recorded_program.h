// The events of a real model's training on this rank, recorded for the simulation, beside the trace and the decisions
// that they led to. Between the model and its listener, so that nothing is left out.
#pragma once

#include <fsdp/fsdp.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "plan/simulation.h"

namespace fsdp::testing_models {

using Lines = std::vector<std::string>;

// What a rank's model did: its program, and what the simulation is compared with.
struct RecordedRun {
  schedule::Facts facts = {};
  schedule::Limits limits = {};
  plan::StepEvents events = {};
  Lines trace = {};      // activities in the order of their ends, then of their begins: "gather 3"
  Lines decisions = {};  // of the last step
};

// Records from its construction to `end`. The model was not used before, and outlives it.
class ProgramRecorder {
 public:
  ProgramRecorder(ShardedModel& sharded, const Options& options);
  ~ProgramRecorder();
  ProgramRecorder(const ProgramRecorder&) = delete;
  ProgramRecorder& operator=(const ProgramRecorder&) = delete;

  RecordedRun end();

 private:
  class Listener;
  std::shared_ptr<engine::Model> model_;
  schedule::Limits limits_;
  std::unique_ptr<Listener> listener_;
};

// The same lines of a simulated rank's steps.
Lines trace_of(const std::vector<plan::SimulatedStep>& steps, const schedule::Facts& facts);
Lines decisions_of(const schedule::Step& step);
// The first line that differs; "" if none does.
std::string first_difference(const Lines& found, const Lines& expected);

// Through a file each: the events of every rank, by rank. A collective.
std::vector<plan::StepEvents> exchange_events(World& world, const std::filesystem::path& folder,
                                              const plan::StepEvents& events);

}  // namespace fsdp::testing_models
