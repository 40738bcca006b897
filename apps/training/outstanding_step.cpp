#include "training/outstanding_step.h"

#include "files/json.h"
#include "metrics/fields.h"

namespace trainer {

std::string to_note(const StepOutcome& outcome) {
  return nlohmann::ordered_json{
      {"record", to_json(outcome.record)}, {"event", outcome.event}, {"save_is_due", outcome.ranks.front().save_is_due}}
      .dump();
}

StepOutcome outcome_from_note(const std::string& note) {
  const auto json = fsdp::files::parse_ordered_json(note, "the note of an outstanding step");
  return {.record = step_record_of(json.at("record")),
          .ranks = {{.save_is_due = json.at("save_is_due").get<bool>()}},
          .event = json.at("event").get<std::string>()};
}

}  // namespace trainer
