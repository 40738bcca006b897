#include "metrics/tensorboard.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <utility>

#include "metrics/checksum.h"
#include "metrics/fields.h"
#include "metrics/protobuf.h"
#include "metrics/session_end.h"

namespace trainer {

namespace {

uint32_t masked_checksum(std::string_view bytes) {
  const uint32_t sum = crc32c(bytes);
  return std::rotr(sum, 15) + 0xA282EAD8u;
}

// Field numbers of event.proto and summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2;
constexpr int kStatus = 1, kStart = 1;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event_at(int64_t step) {
  Message event;
  event.add_double(kWallTime, seconds_since_1970());
  event.add_integer(kStep, step);
  return event;
}

void add_scalar(Message& summary, const std::string& tag, const nlohmann::ordered_json& json) {
  if (!json.is_number() && !json.is_boolean()) return;
  Message value;
  value.add_bytes(kTag, tag);
  value.add_float(kSimpleValue, json.is_boolean() ? (json.get<bool>() ? 1.0f : 0.0f) : json.get<float>());
  summary.add_bytes(kValue, value.bytes());
}

// Curves that belong together have names with one beginning: TensorBoard puts them under one heading.
std::string tag_of(const std::string& field) {
  if (field == "loss") return "loss/train";
  return field == "validation_loss" ? "loss/validation" : field;
}

// One that is not there yet: a process may go on with a run within the second in which it began.
std::filesystem::path new_file(const std::filesystem::path& folder) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'h', 'o', 's', 't'};
  const auto now = static_cast<int64_t>(seconds_since_1970());
  for (int number = 0;; ++number) {
    std::filesystem::path path =
        folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", now, host.data(), getpid(), number);
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return path;
  }
}

std::filesystem::path made(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw fsdp::Error(fmt::format("'{}' cannot be made: {}.", folder.string(), error.message()));
  return folder;
}

}  // namespace

std::string framed(const std::string& event) {
  std::string record;
  add_little_endian(record, static_cast<uint64_t>(event.size()));
  add_little_endian(record, masked_checksum(record));
  record += event;
  add_little_endian(record, masked_checksum(event));
  return record;
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, int64_t steps_done,
                                 const Hyperparameters& hyperparameters, Tell tell)
    : path_(new_file(made(folder))), tell_(std::move(tell)), file_(path_, 0) {
  take_back_ends(folder);
  Message version = event_at(0);
  version.add_bytes(kFileVersion, "brain.Event:2");
  append(version.bytes());
  Message session;
  session.add_integer(kStatus, kStart);
  Message start = event_at(steps_done + 1);
  start.add_bytes(kSessionLog, session.bytes());
  append(start.bytes());
  append_summary(steps_done, session_start_value(hyperparameters, seconds_since_1970()));
}

void TensorBoardFile::end(int64_t steps_done, bool is_finished) {
  append_summary(steps_done, session_end_value(is_finished, seconds_since_1970()));
}

void TensorBoardFile::restore() {
  if (file_.is_in_place()) return;
  made(path_.parent_path());
  file_.restore();
}

void TensorBoardFile::append_summary(int64_t step, const Message& value) {
  Message summary, event = event_at(step);
  summary.add_message(kValue, value);
  event.add_message(kSummary, summary);
  append(event.bytes());
}

void TensorBoardFile::write(const StepRecord& record) {
  Message summary;
  const nlohmann::ordered_json json = to_json(record);
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    if (value.is_object()) {
      for (const auto& [part, number] : value.items()) add_scalar(summary, fmt::format("{}/{}", name, part), number);
    } else {
      add_scalar(summary, tag_of(name), value);
    }
  }
  Message event = event_at(record.step);
  event.add_bytes(kSummary, summary.bytes());
  append(event.bytes());
}

void TensorBoardFile::append(const std::string& event) {
  if (is_broken_) return;
  const std::string reason = file_.append(framed(event));
  if (reason.empty()) return;
  is_broken_ = true;
  tell_(fmt::format("'{}' cannot be written: {}. TensorBoard's curves end here; metrics.jsonl goes on.", path_.string(),
                    reason));
}

}  // namespace trainer
