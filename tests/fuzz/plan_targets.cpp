// Readers of fsdp-plan: its arguments, models, lists of parameters and machines. A plan that comes out has numbers.
#include <fsdp/error.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fsdp-plan/model_plan.h"
#include "fsdp-plan/plan_arguments.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "models/hugging_face_config.h"
#include "models/model_sizes.h"
#include "models/parameter_list.h"
#include "models/toml_config.h"
#include "planning/hardware_file.h"
#include "planning/plan_numbers.h"

namespace fsdp::fuzz {

namespace {

void require_number(const char* name, double number) {
  if (std::isfinite(number) && number >= 0) return;
  std::fprintf(stderr, "fuzz: %s of a plan is %g\n", name, number);
  std::abort();
}

void require_numbers(const trainer::PlanNumbers& numbers) {
  const trainer::PlannedMemory& memory = numbers.memory;
  for (const double bytes : {memory.parameters, memory.gradients, memory.optimizer, memory.full_parameters,
                             memory.full_gradients, memory.activations, memory.others, memory.peak})
    require_number("memory", bytes);
  require_number("parameters", static_cast<double>(numbers.parameters));
  require_number("communication", numbers.communication.within_hosts);
  require_number("communication", numbers.communication.across_hosts);
  if (!numbers.time) return;
  for (const double seconds :
       {numbers.time->step, numbers.time->compute, numbers.time->exposed_communication, numbers.time->idle})
    require_number("time", seconds);
}

trainer::PlanTarget target_on(const fsdp::plan::Hardware& hardware, const char* engine, int64_t hosts) {
  trainer::PlanTarget target{.hardware = hardware, .engine = engine, .hosts = hosts};
  target.memory = hardware.memory;
  return target;
}

trainer::RunOptions options_for(const models::ModelConfig& model, int64_t ranks) {
  trainer::RunOptions options;
  options.model = model;
  options.ranks = ranks;
  options.param_dtype = "bf16";
  return options;
}

// Under sanitizers the simulated step of thousands of units takes seconds, and a plan has several.
bool takes_long(const models::ModelConfig& model) {
  constexpr int64_t kMostLayers = 300;
  return model.layers > kMostLayers;
}

void plan_config(const models::ConfigFile& file) try {
  static const fsdp::plan::Hardware hardware = trainer::hardware_of("h100");
  if (!file.problems.empty() || takes_long(file.config)) return;
  for (const char* engine : {"libfsdp", "fsdp2"}) {
    require_numbers(trainer::plan_numbers(target_on(hardware, engine, 2), options_for(file.config, 6)));
    require_numbers(trainer::plan_numbers(target_on(hardware, engine, 1), options_for(file.config, 1)));
  }
} catch (const Error&) {
}

std::vector<std::string> words_in(std::string_view input) {
  constexpr size_t kMostWords = 100;
  std::vector<std::string> words;
  while (!input.empty() && words.size() < kMostWords) {
    const size_t end = input.find_first_of(std::string_view("\n\0", 2));
    words.emplace_back(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  return words;
}

}  // namespace

void run_plan_arguments(std::string_view input) try {
  const std::vector<std::string> words = words_in(input);
  if (words.empty()) return;
  const planner::PlanArguments arguments = planner::read_plan(words);
  if (arguments.problems.empty() && takes_long(arguments.options.model)) return;
  if (!planner::plan_model(words, 80).problems.empty()) return;
  require_numbers(trainer::plan_numbers(arguments.target, arguments.options));
} catch (const Error&) {
}

void run_plan_config(std::string_view input) { plan_config(models::parse_hugging_face_config(std::string(input))); }

void run_plan_toml(std::string_view input) {
  const InputFile file(input);
  plan_config(models::read_toml_config(file.path()));
}

// A text, or the header of a file of safetensors.
void run_plan_list(std::string_view input) try {
  static const fsdp::plan::Hardware hardware = trainer::hardware_of("h100");
  const models::ParameterList list = input.starts_with('{') ? models::parse_safetensors_header(input, "input")
                                                            : models::parse_parameter_list(input, "input");
  for (const char* engine : {"libfsdp", "fsdp2"}) {
    for (const int64_t ranks : {1, 6}) {
      trainer::PlanTarget target = target_on(hardware, engine, ranks == 6 ? 2 : 1);
      target.listed = std::make_shared<const trainer::ListedModel>(trainer::listed_model(list, {"*.weight"}));
      require_numbers(trainer::plan_numbers(target, options_for({}, ranks)));
    }
  }
} catch (const Error&) {
}

void run_hardware(std::string_view input) try {
  const fsdp::plan::Hardware hardware = trainer::hardware_in(input, "input");
  const models::ModelConfig model = models::config_of_size("gpt2-tiny").value();
  for (const char* engine : {"libfsdp", "fsdp2", "megatron"})
    require_numbers(trainer::plan_numbers(target_on(hardware, engine, 2), options_for(model, 6)));
} catch (const Error&) {
}

}  // namespace fsdp::fuzz
