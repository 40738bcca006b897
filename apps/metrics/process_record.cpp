#include "metrics/process_record.h"

#include <algorithm>
#include <array>

#include "metrics/record_fields.h"

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

constexpr bool kKnown = true, kIfKnown = false;
constexpr bool kRepeats = true, kDiffers = false;

constexpr std::array<Field, 19> kStartFields = {{{"step", "steps", kKnown, kRepeats},
                                                 {"event", "", kKnown, kRepeats},
                                                 {"seconds", "s", kKnown, kRepeats},
                                                 {"time", "", kKnown, kDiffers},
                                                 {"command", "", kKnown, kDiffers},
                                                 {"folder", "", kKnown, kDiffers},
                                                 {"model", "", kKnown, kRepeats},
                                                 {"parameters", "", kKnown, kRepeats},
                                                 {"steps", "steps", kKnown, kRepeats},
                                                 {"ranks", "", kKnown, kRepeats},
                                                 {"hosts", "", kKnown, kDiffers},
                                                 {"threads", "", kKnown, kDiffers},
                                                 {"host", "", kKnown, kDiffers},
                                                 {"process", "", kKnown, kDiffers},
                                                 {"processor", "", kKnown, kDiffers},
                                                 {"cores", "", kKnown, kDiffers},
                                                 {"total_memory", "bytes", kKnown, kDiffers},
                                                 {"fsdp_version", "", kKnown, kDiffers},
                                                 {"torch_version", "", kKnown, kDiffers}}};

constexpr std::array<Field, 6> kEndFields = {{{"step", "steps", kKnown, kRepeats},
                                              {"event", "", kKnown, kRepeats},
                                              {"seconds", "s", kKnown, kDiffers},
                                              {"time", "", kKnown, kDiffers},
                                              {"status", "", kKnown, kDiffers},
                                              {"reason", "", kIfKnown, kDiffers}}};

constexpr std::array<std::pair<EndStatus, const char*>, 3> kWords = {
    {{EndStatus::Finished, "finished"}, {EndStatus::Stopped, "stopped"}, {EndStatus::Failed, "failed"}}};

}  // namespace

std::span<const Field> start_fields() { return kStartFields; }
std::span<const Field> end_fields() { return kEndFields; }

Json to_json(const ProcessStart& start) {
  return {{"step", start.step},
          {"event", kRunStart},
          {"seconds", 0.0},
          {"time", start.time},
          {"command", start.command},
          {"folder", start.folder},
          {"model", start.model},
          {"parameters", start.parameters},
          {"steps", start.steps},
          {"ranks", start.ranks},
          {"hosts", start.hosts},
          {"threads", start.threads},
          {"host", start.host},
          {"process", start.process},
          {"processor", start.processor},
          {"cores", start.cores},
          {"total_memory", start.total_memory},
          {"fsdp_version", start.fsdp_version},
          {"torch_version", start.torch_version}};
}

const char* word_of(EndStatus status) {
  return std::find_if(kWords.begin(), kWords.end(), [&](const auto& entry) { return entry.first == status; })->second;
}

Json to_json(const ProcessEnd& end) {
  Json json = {{"step", end.step},
               {"event", kRunEnd},
               {"seconds", end.seconds},
               {"time", end.time},
               {"status", word_of(end.status)}};
  if (!end.reason.empty()) json["reason"] = end.reason;
  return json;
}

ProcessStart start_from(const Json& record) {
  ProcessStart start{.step = record.at("step")};
  read_field(record, "time", start.time);
  read_field(record, "command", start.command);
  read_field(record, "folder", start.folder);
  read_field(record, "model", start.model);
  read_field(record, "parameters", start.parameters);
  read_field(record, "steps", start.steps);
  read_field(record, "ranks", start.ranks);
  read_field(record, "hosts", start.hosts);
  read_field(record, "threads", start.threads);
  read_field(record, "host", start.host);
  read_field(record, "process", start.process);
  read_field(record, "processor", start.processor);
  read_field(record, "cores", start.cores);
  read_field(record, "total_memory", start.total_memory);
  read_field(record, "fsdp_version", start.fsdp_version);
  read_field(record, "torch_version", start.torch_version);
  return start;
}

ProcessEnd end_from(const Json& record) {
  ProcessEnd end{.step = record.at("step"), .status = EndStatus::Failed};
  read_field(record, "time", end.time);
  read_field(record, "reason", end.reason);
  read_field(record, "seconds", end.seconds);
  std::string word;
  read_field(record, "status", word);
  for (const auto& [status, name] : kWords) {
    if (word == name) end.status = status;
  }
  return end;
}

}  // namespace trainer
