// fsdp-plan MODEL: the plan of a training.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace planner {

// An option of fsdp-plan with a value, beside those of fsdp-train.
struct PlanOption {
  const char* flag;
  const char* unit;
  const char* help;
  bool is_path = false;  // for shells, which offer files
};
const std::vector<PlanOption>& plan_options();

inline constexpr const char* kModelHelp =
    "A model by name, such as gpt2-xl, bert-large, gpt3-175b, llama2-70b or llama3-8b; or a config.json of Hugging "
    "Face, or its folder; or a .toml file of sizes. Or its parameters: a checkpoint, a .safetensors file or its index, "
    "or a text with a name and a shape per line, such as fc.weight [4096, 1024]. Then activations and time are not "
    "known, unless the checkpoint is in its run's folder.";
inline constexpr const char* kModelExamples =
    "  fsdp-plan gpt2-xl --ranks 8 --param-dtype bf16\n"
    "  fsdp-plan llama2-70b --ranks 256 --hardware a100-80 --strategy all\n";

struct ModelPlan {
  std::string text;                        // the result
  std::vector<std::string> problems = {};  // every one, a sentence each; then there is no text
  std::string page_file = {};              // where the page goes; empty: none is asked for
  std::string page = {};                   // HTML
};

// The first word is the model (kModelHelp). Others are options: those of
// plan_options(), and those of fsdp-train.
ModelPlan plan_model(const std::vector<std::string>& words, size_t width);

}  // namespace planner
