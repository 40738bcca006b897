// The records of RUN/metrics.jsonl, and the one of --eval-only --json: their fields, in the order in which they are
// written. docs/metrics.md explains each.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/step_record.h"

namespace trainer {

struct Field {
  std::string_view name;
  std::string_view unit;  // empty: a pure number, a text, or yes and no
  bool always;            // every record has it; others have it where it is known
  bool reproducible;      // the same bits in a run that is repeated or resumed: neither time nor memory
};

// The fields of the three kinds of records: a step, an event, an evaluation.
std::span<const Field> step_fields();
std::span<const Field> event_fields();
std::span<const Field> evaluation_fields();

// A number that is not finite becomes null; every other number is read back as the same bits.
nlohmann::ordered_json to_json(const StepRecord& record);
nlohmann::ordered_json to_json(const Event& event);
nlohmann::ordered_json to_json(const EvaluationRecord& evaluation);

// Back from JSON. A missing field keeps its default, and a number that was not finite is NaN.
StepRecord step_record_of(const nlohmann::ordered_json& json);

// One line, without its end. Bytes that are not UTF-8 become U+FFFD.
std::string line_of(const nlohmann::ordered_json& record);

// The whole numbers that JSON's readers agree on (RFC 8259, section 6), and far more steps than any run has.
inline constexpr int64_t kHighestStep = int64_t{1} << 53;

// The record in a line; none when it is no JSON object with a step from 0 to kHighestStep.
std::optional<nlohmann::ordered_json> parse_record(std::string_view line);

}  // namespace trainer
