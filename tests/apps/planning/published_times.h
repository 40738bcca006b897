// Step times that others published, beside those that the simulation predicts.
#pragma once

#include <string>
#include <vector>

namespace trainer {

struct PublishedTime {
  std::string source;   // "YaFSDP's authors, FSDP"
  std::string setting;  // "Llama 2 7B, 64 A100, 2048 tokens"
  double measured = 0;  // seconds
  double predicted = 0;
  bool is_fitted = false;  // constants were chosen by it

  double error() const { return predicted / measured - 1; }
};

// Of the authors of YaFSDP and of torchtitan.
std::vector<PublishedTime> published_times();

// Of vTrain: one host of A100, Megatron-DeepSpeed. Each 12th row after sorting was fitted.
std::vector<PublishedTime> vtrain_times();

// Of one H200, where the hosts' numbers were chosen by these rows and the device's were not (docs/performance_h200.md).
std::vector<PublishedTime> h200_times();

// Of fsdp-train on a host with two cores, which fsdp-plan calibrate measured in the same minutes. No row was used for
// that.
std::vector<PublishedTime> cpu_times();

struct ErrorSummary {
  double mean = 0, median = 0, nine_in_ten = 0, worst = 0;  // of absolute errors
  size_t rows = 0;
};
ErrorSummary summary_of(const std::vector<PublishedTime>& times, bool of_fitted);

}  // namespace trainer
