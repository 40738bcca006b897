#include "apps/fsdp-train/train_program.h"

#include <fstream>
#include <set>
#include <utility>

#include "metrics/fields.h"

using nlohmann::json;

json evaluated(const std::string& arguments) {
  const Ending ending = run_train("--eval-only --json --threads 1 " + arguments);
  EXPECT_EQ(ending.code, 0) << ending.output;
  return json::parse(ending.output, nullptr, /*allow_exceptions=*/false);
}

namespace {

std::vector<json> all_records_of(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  std::vector<json> records;
  for (std::string line; std::getline(file, line) && !file.eof();) records.push_back(json::parse(line));
  return records;
}

}  // namespace

std::vector<json> events_of(const std::string& run, const std::string& event) {
  std::vector<json> records = all_records_of(run);
  std::erase_if(records, [&](const json& record) { return record.value("event", "") != event; });
  return records;
}

std::vector<json> metrics_of(const std::string& run) {
  std::vector<json> records = all_records_of(run);
  const std::set<std::string> of_other_kinds = {"run_start", "run_end", "data", "checkpoint"};
  std::erase_if(records, [&](const json& record) { return of_other_kinds.contains(record.value("event", "")); });
  return records;
}

std::vector<double> losses_of(const std::string& run) {
  std::vector<double> losses;
  for (const json& record : metrics_of(run)) {
    if (record.contains("loss")) losses.push_back(record["loss"]);  // otherwise it is an event
  }
  return losses;
}

std::vector<json> reproducible_steps_of(const std::string& run) {
  std::vector<json> records = metrics_of(run);
  std::erase_if(records, [](const json& record) { return record.contains("event"); });  // some are of times
  for (json& record : records) {
    for (const trainer::Field& field : trainer::step_fields()) {
      if (!field.reproducible) record.erase(std::string(field.name));
    }
  }
  return records;
}

TrainProgram::TrainProgram() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "In the beginning was the word, and the word was number " + std::to_string(i) + ".\n";
  }
  text_ = folder_.write("text.txt", text);
}

std::string TrainProgram::tiny_arguments(const std::string& run, const std::string& more) const {
  const std::vector<std::pair<std::string, std::string>> arguments = {
      {"--text", text_},   {"--run", folder_ / run},  {"--context", "16"}, {"--width", "16"},
      {"--layers", "2"},   {"--heads", "2"},          {"--batch", "2"},    {"--threads", "1"},
      {"--timeout", "60"}, {"--sample-length", "20"}, {"--warmup", "0"}};
  std::string text;
  const auto gives = [&](const std::string& flag) { return (" " + more).find(" " + flag + " ") != std::string::npos; };
  for (const auto& [flag, value] : arguments) {
    const bool is_given = gives(flag) || (flag == "--text" && gives("--data"));
    if (!is_given) text += flag + " " + value + " ";
  }
  return text + more;
}
