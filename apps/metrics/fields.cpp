#include "metrics/fields.h"

#include <fsdp/error.h>

#include <array>
#include <limits>
#include <type_traits>

#include "files/json.h"
#include "metrics/record_fields.h"

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

constexpr bool kAlways = true, kWhereKnown = false;
constexpr bool kSame = true, kVaries = false;

constexpr std::array<Field, 23> kStepFields = {{{"step", "steps", kAlways, kSame},
                                                {"loss", "nats per token", kAlways, kSame},
                                                {"grad_norm", "", kAlways, kSame},
                                                {"lr", "", kAlways, kSame},
                                                {"tokens_per_second", "tokens/s", kAlways, kVaries},
                                                {"memory_bytes", "bytes", kAlways, kVaries},
                                                {"seconds", "s", kAlways, kVaries},
                                                {"tokens", "tokens", kAlways, kSame},
                                                {"step_seconds", "s", kAlways, kVaries},
                                                {"validation_loss", "nats per token", kWhereKnown, kSame},
                                                {"loss_scale", "", kWhereKnown, kSame},
                                                {"skipped", "", kWhereKnown, kSame},
                                                {"learning_rates", "", kWhereKnown, kSame},
                                                {"data_seconds", "s", kWhereKnown, kVaries},
                                                {"forward_backward_seconds", "s", kWhereKnown, kVaries},
                                                {"optimizer_seconds", "s", kWhereKnown, kVaries},
                                                {"other_seconds", "s", kWhereKnown, kVaries},
                                                {"wait_seconds", "s", kWhereKnown, kVaries},
                                                {"idle_share", "", kWhereKnown, kVaries},
                                                {"idle_share_formula", "", kWhereKnown, kVaries},
                                                {"mfu", "", kWhereKnown, kVaries},
                                                {"peak_memory_bytes", "bytes", kWhereKnown, kVaries},
                                                {"memory", "bytes", kWhereKnown, kVaries}}};

constexpr std::array<Field, 3> kEventFields = {
    {{"step", "steps", kAlways, kSame}, {"event", "", kAlways, kSame}, {"seconds", "s", kAlways, kVaries}}};

constexpr std::array<Field, 5> kEvaluationFields = {{{"weights", "", kAlways, kSame},
                                                     {"step", "steps", kAlways, kSame},
                                                     {"validation_loss", "nats per token", kAlways, kSame},
                                                     {"perplexity", "", kAlways, kSame},
                                                     {"tokens", "tokens", kAlways, kSame}}};

void add_where_known(Json& json, const StepRecord& record) {
  if (record.validation_loss) json["validation_loss"] = *record.validation_loss;
  if (record.loss_scale) {
    json["loss_scale"] = *record.loss_scale;
    json["skipped"] = record.skipped;
  } else if (record.skipped) {
    json["skipped"] = true;
  }
  for (const GroupRate& rate : record.learning_rates) json["learning_rates"][rate.group] = rate.lr;
  const auto add = [&](const char* name, const std::optional<double>& number) {
    if (number) json[name] = *number;
  };
  add("data_seconds", record.data_seconds);
  add("forward_backward_seconds", record.forward_backward_seconds);
  add("optimizer_seconds", record.optimizer_seconds);
  add("other_seconds", record.other_seconds);
  add("wait_seconds", record.wait_seconds);
  add("idle_share", record.idle_share);
  add("idle_share_formula", record.idle_share_formula);
  add("mfu", record.mfu);
  if (record.peak_memory_bytes) json["peak_memory_bytes"] = *record.peak_memory_bytes;
  for (const MemoryPart& part : record.memory) json["memory"][part.name] = part.bytes;
}

}  // namespace

std::span<const Field> step_fields() { return kStepFields; }
std::span<const Field> event_fields() { return kEventFields; }
std::span<const Field> evaluation_fields() { return kEvaluationFields; }

Json to_json(const StepRecord& record) {
  Json json = {{"step", record.step},
               {"loss", record.loss},
               {"grad_norm", record.grad_norm},
               {"lr", record.lr},
               {"tokens_per_second", record.tokens_per_second},
               {"memory_bytes", record.memory_bytes},
               {"seconds", record.seconds},
               {"tokens", record.tokens},
               {"step_seconds", record.step_seconds}};
  add_where_known(json, record);
  return json;
}

Json to_json(const Event& event) { return {{"step", event.step}, {"event", event.text}, {"seconds", event.seconds}}; }

Json to_json(const EvaluationRecord& evaluation) {
  return {{"weights", evaluation.weights},
          {"step", evaluation.step},
          {"validation_loss", evaluation.validation_loss},
          {"perplexity", evaluation.perplexity},
          {"tokens", evaluation.tokens}};
}

StepRecord step_record_of(const Json& json) {
  StepRecord record;
  const auto read = [&](const char* name, auto& number) {
    read_field(json, name, number);
    if constexpr (std::is_same_v<decltype(number), double&>) {
      if (json.contains(name) && json.at(name).is_null()) number = std::numeric_limits<double>::quiet_NaN();
    }
  };
  const auto read_where_known = [&](const char* name, auto& number) {
    if (json.contains(name)) read(name, number.emplace());
  };
  read("step", record.step);
  read("loss", record.loss);
  read("grad_norm", record.grad_norm);
  read("lr", record.lr);
  read("tokens_per_second", record.tokens_per_second);
  read("memory_bytes", record.memory_bytes);
  read("seconds", record.seconds);
  read("tokens", record.tokens);
  read("step_seconds", record.step_seconds);
  read("skipped", record.skipped);
  read_where_known("validation_loss", record.validation_loss);
  read_where_known("loss_scale", record.loss_scale);
  read_where_known("data_seconds", record.data_seconds);
  read_where_known("forward_backward_seconds", record.forward_backward_seconds);
  read_where_known("optimizer_seconds", record.optimizer_seconds);
  read_where_known("other_seconds", record.other_seconds);
  read_where_known("wait_seconds", record.wait_seconds);
  read_where_known("idle_share", record.idle_share);
  read_where_known("idle_share_formula", record.idle_share_formula);
  read_where_known("mfu", record.mfu);
  read_where_known("peak_memory_bytes", record.peak_memory_bytes);
  if (const auto rates = json.find("learning_rates"); rates != json.end()) {
    for (const auto& [group, lr] : rates->items()) record.learning_rates.push_back({group, lr.get<double>()});
  }
  if (const auto memory = json.find("memory"); memory != json.end()) {
    for (const auto& [part, bytes] : memory->items()) record.memory.push_back({part, bytes.get<int64_t>()});
  }
  return record;
}

std::string line_of(const Json& record) { return record.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::optional<Json> parse_record(std::string_view line) try {
  const std::string name = "a record";  // the message is not used
  Json record = fsdp::files::parse_ordered_json(line, name);
  fsdp::files::whole_number(record, "step", name, 0, kHighestStep);
  return record;
} catch (const fsdp::Error&) {
  return std::nullopt;
}

}  // namespace trainer
