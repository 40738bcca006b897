// A record of the data that a process trains on: what was read, skipped and assumed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "metrics/fields.h"

namespace trainer {

struct DataRecord {
  int64_t step = 0;             // steps done before, as in ProcessStart
  int64_t training_tokens = 0;  // that there are
  int64_t validation_tokens = 0;
  double held_back = 0;  // the share of the data's end that is validated with; 0: it has validation data of its own
  std::optional<std::string> tokenizer = std::nullopt;        // none: the tokens came without
  std::optional<int64_t> vocabulary = std::nullopt;           // the tokenizer's
  int64_t hidden = 0, binary = 0, empty = 0, unreadable = 0;  // entries of folders of texts that were skipped
  int64_t crlf = 0;                                           // files whose lines end with CR LF
  std::optional<int64_t> not_utf8 = std::nullopt;             // files; none: the text was not read as a whole
  std::optional<std::string> assumed_dtype = std::nullopt;    // of token files without a header
};

// The `event` of its record.
inline constexpr const char* kDataEvent = "data";

std::span<const Field> data_fields();

nlohmann::ordered_json to_json(const DataRecord& data);

// Back from a record with a step. Fields that it lacks, or that are of another type, have their defaults.
DataRecord data_from(const nlohmann::ordered_json& record);

}  // namespace trainer
