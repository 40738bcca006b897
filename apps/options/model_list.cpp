#include "options/model_list.h"

#include <fmt/format.h>

#include "console/units.h"
#include "models/model_sizes.h"

namespace trainer {

namespace {

std::string line_of(const std::string& name) {
  if (const std::string behind = models::name_behind(name); behind != name)
    return fmt::format("{:<14} is {}\n", name, behind);
  const models::ModelConfig config = *models::config_of_size(name);
  return fmt::format("{:<14} {:<6} {:>10} {:>7} {:>6} {:>6} {:>8} {:>11}\n", name, models::name_of(config.family),
                     short_number(static_cast<double>(models::parameter_numel(config))), config.layers, config.width,
                     config.heads, grouped(config.context), grouped(config.vocabulary));
}

}  // namespace

std::string model_list() {
  std::string text = fmt::format("{:<14} {:<6} {:>10} {:>7} {:>6} {:>6} {:>8} {:>11}\n", "--model", "family",
                                 "parameters", "layers", "width", "heads", "context", "vocabulary");
  for (const std::string& name : models::size_names()) text += line_of(name);
  return text +
         "\nOptions such as --layers and --context change a shape. --model also takes a\n"
         "file: config.json of Hugging Face, or TOML.\n"
         "fsdp-train --dry-run --model NAME tells the memory and the time.\n";
}

}  // namespace trainer
