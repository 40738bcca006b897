#include "metrics/metrics.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// JSON has no infinity: a run that diverged says null.
double number_or_nan(const Json& json) { return json.is_number() ? json.get<double>() : std::nan(""); }

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t steps_done) : path_(path) {
  const std::vector<std::string> before = steps_done > 0 ? lines_of(path) : std::vector<std::string>{};
  file_.open(path, std::ios::trunc);
  for (const std::string& line : before) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || record.value("step", steps_done + 1) > steps_done || !record.contains("loss")) continue;
    remember(record["step"], number_or_nan(record["loss"]));
    file_ << line << '\n';
  }
  file_.flush();
  if (!file_) throw fsdp::Error(fmt::format("'{}' cannot be written.", path.string()));
}

void MetricsFile::write(const StepRecord& record) {
  Json json = {{"step", record.step},
               {"loss", record.loss},
               {"grad_norm", record.grad_norm},
               {"lr", record.lr},
               {"tokens_per_second", record.tokens_per_second},
               {"memory_bytes", record.memory_bytes},
               {"seconds", record.seconds}};
  if (record.validation_loss) json["validation_loss"] = *record.validation_loss;
  if (record.loss_scale) {
    json["loss_scale"] = *record.loss_scale;
    json["skipped"] = record.skipped;
  }
  file_ << json.dump() << std::endl;
  if (!file_) throw fsdp::Error(fmt::format("'{}' cannot be written: is the disk full?", path_.string()));
  remember(record.step, record.loss);
}

void MetricsFile::remember(int64_t step, double loss) {
  if (losses_.empty()) first_step_ = step;
  losses_.push_back(loss);
}

}  // namespace trainer
