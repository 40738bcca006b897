#include "metrics/data_record.h"

#include <array>

#include "metrics/record_fields.h"

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

constexpr bool kStands = true, kStandsIfKnown = false;
constexpr bool kOfTheData = true;

constexpr std::array<Field, 15> kDataFields = {{{"step", "steps", kStands, kOfTheData},
                                                {"event", "", kStands, kOfTheData},
                                                {"seconds", "s", kStands, kOfTheData},
                                                {"training_tokens", "tokens", kStands, kOfTheData},
                                                {"validation_tokens", "tokens", kStands, kOfTheData},
                                                {"held_back", "", kStands, kOfTheData},
                                                {"tokenizer", "", kStandsIfKnown, kOfTheData},
                                                {"vocabulary", "tokens", kStandsIfKnown, kOfTheData},
                                                {"hidden", "", kStands, kOfTheData},
                                                {"binary", "", kStands, kOfTheData},
                                                {"empty", "", kStands, kOfTheData},
                                                {"unreadable", "", kStands, kOfTheData},
                                                {"crlf", "", kStands, kOfTheData},
                                                {"not_utf8", "", kStandsIfKnown, kOfTheData},
                                                {"assumed_dtype", "", kStandsIfKnown, kOfTheData}}};

template <typename Value>
void read_optional(const Json& record, const char* name, std::optional<Value>& value) {
  if (!record.contains(name)) return;
  Value found{};
  read_field(record, name, found);
  value = found;
}

}  // namespace

std::span<const Field> data_fields() { return kDataFields; }

Json to_json(const DataRecord& data) {
  Json json = {{"step", data.step},
               {"event", kDataEvent},
               {"seconds", 0.0},
               {"training_tokens", data.training_tokens},
               {"validation_tokens", data.validation_tokens},
               {"held_back", data.held_back}};
  if (data.tokenizer) json["tokenizer"] = *data.tokenizer;
  if (data.vocabulary) json["vocabulary"] = *data.vocabulary;
  json["hidden"] = data.hidden;
  json["binary"] = data.binary;
  json["empty"] = data.empty;
  json["unreadable"] = data.unreadable;
  json["crlf"] = data.crlf;
  if (data.not_utf8) json["not_utf8"] = *data.not_utf8;
  if (data.assumed_dtype) json["assumed_dtype"] = *data.assumed_dtype;
  return json;
}

DataRecord data_from(const Json& record) {
  DataRecord data{.step = record.at("step")};
  read_field(record, "training_tokens", data.training_tokens);
  read_field(record, "validation_tokens", data.validation_tokens);
  read_field(record, "held_back", data.held_back);
  read_optional(record, "tokenizer", data.tokenizer);
  read_optional(record, "vocabulary", data.vocabulary);
  read_field(record, "hidden", data.hidden);
  read_field(record, "binary", data.binary);
  read_field(record, "empty", data.empty);
  read_field(record, "unreadable", data.unreadable);
  read_field(record, "crlf", data.crlf);
  read_optional(record, "not_utf8", data.not_utf8);
  read_optional(record, "assumed_dtype", data.assumed_dtype);
  return data;
}

}  // namespace trainer
