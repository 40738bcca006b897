#include "metrics/fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "metrics/checkpoint_record.h"
#include "metrics/data_record.h"
#include "metrics/process_record.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

StepRecord with_everything() {
  return {.step = 1,
          .validation_loss = 1.5,
          .loss_scale = 65536,
          .skipped = true,
          .data_seconds = 0.001,
          .forward_backward_seconds = 0.1,
          .optimizer_seconds = 0.02,
          .other_seconds = 0.003,
          .wait_seconds = 0.01,
          .idle_share = 0.3,
          .idle_share_formula = 0.2,
          .mfu = 0.4,
          .peak_memory_bytes = 5,
          .memory = {{"parameters", 3}, {"optimizer", 6}},
          .learning_rates = {{"matrices", 0.02}, {"others", 0.001}}};
}

template <typename Record>
std::vector<std::string> names_in(const Record& record) {
  std::vector<std::string> names;
  const nlohmann::ordered_json json = to_json(record);
  for (const auto& [name, value] : json.items()) names.push_back(name);
  return names;
}

// seconds_left alone is for people, and not written.
TEST(Fields, OfAStepAreReadBack) {
  StepRecord record = with_everything();
  record.loss = 1.0 / 3;
  record.grad_norm = 1e-30;
  record.lr = 1e-4;
  record.tokens_per_second = 123.5;
  record.memory_bytes = int64_t{1} << 40;
  record.seconds = 2.5;
  record.tokens = 77;
  record.step_seconds = 0.125;
  for (const StepRecord& one : {record, StepRecord{.step = 3}}) {
    EXPECT_EQ(to_json(step_record_of(to_json(one))), to_json(one));
  }
  const StepRecord not_finite{.loss = std::numeric_limits<double>::infinity()};
  EXPECT_TRUE(std::isnan(step_record_of(nlohmann::ordered_json::parse(line_of(to_json(not_finite)))).loss));
}

TEST(Fields, AreWrittenAllAndInTheirOrder) {
  std::vector<std::string> all, always;
  for (const Field& field : step_fields()) {
    all.emplace_back(field.name);
    if (field.always) always.emplace_back(field.name);
  }
  EXPECT_EQ(names_in(with_everything()), all);
  EXPECT_EQ(names_in(StepRecord{}), always);
  std::vector<std::string> of_event;
  for (const Field& field : event_fields()) of_event.emplace_back(field.name);
  EXPECT_EQ(names_in(Event{}), of_event);
  std::vector<std::string> of_start, of_end;
  for (const Field& field : start_fields()) of_start.emplace_back(field.name);
  EXPECT_EQ(names_in(ProcessStart{}), of_start);
  for (const Field& field : end_fields()) of_end.emplace_back(field.name);
  EXPECT_EQ(names_in(ProcessEnd{.reason = "why"}), of_end);
  of_end.pop_back();  // the reason, where there is one
  EXPECT_EQ(names_in(ProcessEnd{}), of_end);
  std::vector<std::string> of_checkpoint, of_data;
  for (const Field& field : checkpoint_fields()) of_checkpoint.emplace_back(field.name);
  EXPECT_EQ(names_in(CheckpointRecord{.removed = {"step-1"}}), of_checkpoint);
  for (const Field& field : data_fields()) of_data.emplace_back(field.name);
  EXPECT_EQ(names_in(DataRecord{.tokenizer = "bytes", .vocabulary = 256, .not_utf8 = 0, .assumed_dtype = "uint16"}),
            of_data);
  std::vector<std::string> of_evaluation;
  for (const Field& field : evaluation_fields()) of_evaluation.emplace_back(field.name);
  EXPECT_EQ(names_in(EvaluationRecord{}), of_evaluation);
}

TEST(Fields, KeepEveryBitOfANumber) {
  std::mt19937_64 random(1);
  std::vector<double> numbers = {0.1,
                                 -0.0,
                                 1.0,
                                 2.0 / 3.0,
                                 std::numeric_limits<double>::max(),
                                 std::numeric_limits<double>::min(),
                                 std::numeric_limits<double>::denorm_min(),
                                 9007199254740993.0};
  while (numbers.size() < 20'000) {
    const auto number = std::bit_cast<double>(random());
    if (std::isfinite(number)) numbers.push_back(number);
  }
  for (const double number : numbers) {
    const auto record = parse_record(line_of(to_json(StepRecord{.step = 1, .loss = number})));
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(std::bit_cast<uint64_t>(record->at("loss").get<double>()), std::bit_cast<uint64_t>(number)) << number;
  }
}

TEST(Fields, ThatAreNotFiniteAreNull) {
  for (const double number : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(parse_record(line_of(to_json(StepRecord{.loss = number})))->at("loss").is_null());
  }
}

TEST(Fields, OfAnEventMayHoldAnyBytes) {
  const std::string line = line_of(to_json(Event{.step = 3, .text = "a\n\"b\" \xff\x01"}));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(parse_record(line)->at("event"), "a\n\"b\" \uFFFD\x01");
}

TEST(Fields, OfWhatIsNoRecordAreNone) {
  for (const char* line : {"", "{", "[1]", "3", "{\"loss\": 1}", "{\"step\": 1.5}", "{\"step\": -1}",
                           "{\"step\": \"1\"}", "{\"step\": 18446744073709551615}", "{\"step\": 1} {", "\xff"}) {
    EXPECT_FALSE(parse_record(line).has_value()) << line;
  }
  EXPECT_FALSE(parse_record(std::string(1'000'000, '[')).has_value());
}

// The rows under a heading of docs/metrics.md: name, unit, when, what is the same.
std::vector<std::vector<std::string>> documented(const std::string& heading) {
  std::istringstream page(read_bytes(FSDP_DOCS "/metrics.md"));
  std::vector<std::vector<std::string>> rows;
  bool is_here = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) is_here = line == heading;
    if (!is_here || !line.starts_with("| `")) continue;
    std::istringstream cells(line.substr(2));
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) {
      cell.erase(cell.find_last_not_of(' ') + 1);
      rows.back().push_back(cell.substr(std::min(cell.find_first_not_of(' '), cell.size())));
    }
  }
  return rows;
}

void expect_documented(const std::string& heading, std::span<const Field> fields) {
  const auto rows = documented(heading);
  ASSERT_EQ(rows.size(), fields.size()) << heading;
  for (size_t i = 0; i < fields.size(); ++i) {
    ASSERT_GE(rows[i].size(), 5u) << heading;
    EXPECT_EQ(rows[i][0], "`" + std::string(fields[i].name) + "`");
    EXPECT_EQ(rows[i][1], fields[i].unit) << fields[i].name;
    EXPECT_EQ(rows[i][2].starts_with("always"), fields[i].always) << fields[i].name;
    EXPECT_EQ(rows[i][3], fields[i].reproducible ? "yes" : "no") << fields[i].name;
    EXPECT_FALSE(rows[i][4].empty()) << fields[i].name;
  }
}

TEST(Fields, AreThoseOfTheDocumentation) {
  expect_documented("## A step", step_fields());
  expect_documented("## An event", event_fields());
  expect_documented("## The beginning of a process", start_fields());
  expect_documented("## The end of a process", end_fields());
  expect_documented("## A checkpoint", checkpoint_fields());
  expect_documented("## The data of a process", data_fields());
  expect_documented("## An evaluation", evaluation_fields());
}

}  // namespace
}  // namespace trainer
