// Records of the processes that worked on a run: a run that was resumed has several. Rank 0 writes one when it begins
// to train and one when it ends; a process that was killed leaves no second one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "metrics/fields.h"

namespace trainer {

struct ProcessStart {
  int64_t step = 0;       // steps done before
  std::string time = {};  // "2026-11-23T03:01:02Z", UTC
  std::string command = {};
  std::string folder = {};  // that the command was given in
  std::string model = {};   // in a few words
  int64_t parameters = 0;
  int64_t steps = 0;  // to be done in all
  int64_t ranks = 1, hosts = 1;
  int64_t threads = 1;    // per rank
  std::string host = {};  // of rank 0, as are all of the following
  int64_t process = 0;    // its number
  std::string processor = {};
  int64_t cores = 0;         // that this process may use
  int64_t total_memory = 0;  // of the machine, in bytes
  std::string fsdp_version = {}, torch_version = {};
};

enum class EndStatus { Finished, Stopped, Failed };

// "finished", "stopped", "failed"
const char* word_of(EndStatus status);

struct ProcessEnd {
  int64_t step = 0;       // steps done
  double seconds = 0;     // as in StepRecord
  std::string time = {};  // as in ProcessStart
  EndStatus status = EndStatus::Finished;
  std::string reason = {};  // why it stopped or failed; empty: it finished
};

// The `event` of their records.
inline constexpr const char* kRunStart = "run_start";
inline constexpr const char* kRunEnd = "run_end";

std::span<const Field> start_fields();
std::span<const Field> end_fields();

nlohmann::ordered_json to_json(const ProcessStart& start);
nlohmann::ordered_json to_json(const ProcessEnd& end);

// Back from a record with a step. Fields that it lacks, or that are of another type, have their defaults; an end of
// unknown status failed.
ProcessStart start_from(const nlohmann::ordered_json& record);
ProcessEnd end_from(const nlohmann::ordered_json& record);

}  // namespace trainer
