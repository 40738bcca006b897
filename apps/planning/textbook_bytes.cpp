// Bytes per parameter, and models at 16 of them.
#include <fmt/format.h>

#include <array>

#include "models/model_sizes.h"
#include "planning/model_parts.h"
#include "planning/textbook_topics.h"

namespace trainer {

namespace {

// Bytes per parameter of the shards of all ranks together.
struct ParameterBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  double sum() const { return parameters + gradients + optimizer; }
};

ParameterBytes bytes_in(const std::string& param_dtype) {
  constexpr int64_t kRanks = 8, kNumel = kRanks << 26;  // no padding
  const fsdp::plan::StateMemory state =
      state_on_gpus({fsdp::plan::Unit{{.numel = kNumel}}}, "full-shard", kRanks, param_dtype);
  const auto of = [](int64_t bytes) { return static_cast<double>(bytes * kRanks) / static_cast<double>(kNumel); };
  return {of(state.parameters), of(state.gradients), of(state.optimizer)};
}

TextbookRow high_end_row() {
  const models::ModelConfig gpt2 = *models::config_of_size("gpt2-xl");
  const double state = bytes_in("fp32").sum();
  const double activations = held_bytes({.model = gpt2}) / static_cast<double>(models::parameter_numel(gpt2));
  return {
      .id = "bytes-fp32",
      .what = "fp32, with activations and temporary memory",
      .source = "courses",
      .formula = "4 parameters + 8 Adam + 4 gradients + 8 activations",
      .unit = "bytes",
      .published = 24,
      .recomputed = 4 + 8 + 4 + 8,
      .ours = state + activations,
      .why = fmt::format("The state takes {:.3g} bytes, as published. Activations do not follow the parameters: they "
                         "grow with the tokens. GPT-2 1.5 B holds {:.2g} bytes per parameter for each sequence of "
                         "1,024 tokens.",
                         state, activations)};
}

// The smallest device with room for the state.
double device_for(double gigabytes) {
  for (const double device : {16.0, 32.0, 40.0, 80.0}) {
    if (gigabytes <= device) return device;
  }
  return kNoDevice;
}

struct TaughtModel {
  const char* id;
  const char* name;  // with the course's number of parameters
  const char* size;  // ours
  double billions;   // the course's
  double gigabytes;
  double device;
};

constexpr std::array<TaughtModel, 4> kTaught = {
    {{"bert-large", "BERT-Large, 0.32 B", "bert-large", 0.32, 5.12, 16},
     {"gpt2", "GPT-2, 1.5 B", "gpt2-xl", 1.5, 24, 32},
     {"turing-nlg", "Turing-NLG, 17.2 B", "turing-nlg-17b", 17.2, 275, kNoDevice},
     {"gpt3", "GPT-3, 175 B", "gpt3-175b", 175, 2800, kNoDevice}}};

double gigabytes_alone(const models::ModelConfig& config) {
  return static_cast<double>(state_on_gpus(parts_of(config).units, "full-shard", 1, "bf16").total()) / kGigabyte;
}

TextbookRow memory_row(const TaughtModel& model) {
  const models::ModelConfig config = *models::config_of_size(model.size);
  const double billions = static_cast<double>(models::parameter_numel(config)) / kGigabyte;
  return {.id = fmt::format("{}-memory", model.id),
          .what = fmt::format("{}: state", model.name),
          .source = "courses",
          .formula = fmt::format("16 x {} B", model.billions),
          .unit = "GB",
          .published = model.gigabytes,
          .recomputed = 16 * model.billions,
          .ours = gigabytes_alone(config),
          .why = fmt::format("It has {:.4g} B parameters. In addition two of its units are there in bf16.", billions)};
}

TextbookRow device_row(const TaughtModel& model) {
  const double ours = gigabytes_alone(*models::config_of_size(model.size));
  return {.id = fmt::format("{}-device", model.id),
          .what = fmt::format("{}: smallest device of 16, 32, 40 and 80 GB", model.name),
          .source = "courses",
          .formula = fmt::format("smallest of at least {} GB", model.gigabytes),
          .unit = "GB",
          .published = model.device,
          .recomputed = device_for(16 * model.billions),
          .ours = device_for(ours),
          .why = model.device == kNoDevice
                     ? fmt::format("The state alone fills {:.0f} devices of 80 GB.", std::ceil(ours / 80))
                     : "For the state alone: activations are left out."};
}

// The share of a token's computation that attention has.
double attention_share(const models::ModelConfig& config) {
  return 1 - models::flops_per_token(config, 1) / models::flops_per_token(config, config.context);
}

TextbookRow computation_row() {
  const models::ModelConfig bert = *models::config_of_size("bert-large"), gpt3 = *models::config_of_size("gpt3-175b");
  return {.id = "computation",
          .what = "GPT-3: computation of a token beside BERT-Large, 1x",
          .source = "courses",
          .formula = "175 B / 0.32 B",
          .unit = "x",
          .published = 547,
          .recomputed = 175 / 0.32,
          .ours = models::flops_per_token(gpt3, gpt3.context) / models::flops_per_token(bert, bert.context),
          .why = fmt::format("BERT-Large has 0.336 B parameters. Attention counts too: it is {:.0f} % of BERT-Large's "
                             "computation with 512 tokens, and {:.0f} % of GPT-3's with 2,048.",
                             100 * attention_share(bert), 100 * attention_share(gpt3))};
}

}  // namespace

TextbookTopic bytes_per_parameter() {
  const ParameterBytes half = bytes_in("bf16"), full = bytes_in("fp32");
  const double copy = half.parameters - full.parameters;  // in bf16
  return {
      .title = "Bytes per parameter",
      .setting = "Adam; the figures of all ranks together, without buffers.",
      .rows = {{.id = "mixed-parameters",
                .what = "Mixed precision: parameters in half precision",
                .source = "courses",
                .formula = "2x",
                .unit = "bytes",
                .published = 2,
                .recomputed = 2,
                .ours = copy,
                .why = "Equal. A single GPU needs no such copy: each use casts a unit into a buffer."},
               {.id = "mixed-gradients",
                .what = "Mixed precision: gradients in half precision",
                .source = "courses",
                .formula = "2x",
                .unit = "bytes",
                .published = 2,
                .recomputed = 2,
                .ours = half.gradients,
                .why = "Sums of gradients are kept in fp32: micro-batches add up without rounding to half precision."},
               {.id = "mixed-optimizer",
                .what = "Mixed precision: parameters in fp32 and Adam's moments",
                .source = "courses",
                .formula = "4x + 4x + 4x",
                .unit = "bytes",
                .published = 12,
                .recomputed = 4 + 4 + 4,
                .ours = full.parameters + half.optimizer,
                .why = "Equal."},
               {.id = "mixed-together",
                .what = "Mixed precision: together",
                .source = "courses",
                .formula = "2x + 2x + 12x",
                .unit = "bytes",
                .published = 16,
                .recomputed = 2 + 2 + 12,
                .ours = half.sum(),
                .why = "The gradients in fp32 make the difference. YaFSDP counts as many."},
               high_end_row()}};
}

TextbookTopic models_at_16_bytes() {
  TextbookTopic topic{.title = "Models at 16 bytes per parameter",
                      .setting = "State on one device: ours on one GPU, in bf16 with fp32 moments.",
                      .rows = {}};
  for (const TaughtModel& model : kTaught) topic.rows.push_back(memory_row(model));
  for (const TaughtModel& model : kTaught) topic.rows.push_back(device_row(model));
  topic.rows.push_back(computation_row());
  return topic;
}

}  // namespace trainer
