#include "options/model_list.h"

#include <fmt/format.h>

#include "console/units.h"
#include "models/model_sizes.h"

namespace trainer {

std::string model_list() {
  std::string text = fmt::format("{:<12} {:<7} {:>10} {:>7} {:>6} {:>6} {:>8} {:>11}\n", "--model", "family",
                                 "parameters", "layers", "width", "heads", "context", "vocabulary");
  for (const std::string& name : models::size_names()) {
    const models::ModelConfig config = *models::config_of_size(name);
    text += fmt::format("{:<12} {:<7} {:>10} {:>7} {:>6} {:>6} {:>8} {:>11}\n", name, models::name_of(config.family),
                        short_number(static_cast<double>(models::parameter_numel(config))), config.layers, config.width,
                        config.heads, grouped(config.context), grouped(config.vocabulary));
  }
  return text +
         "\nOptions such as --layers and --context change a shape. --model also takes a\n"
         "file: config.json of Hugging Face, or TOML.\n"
         "fsdp-train --dry-run --model NAME tells the memory and the time.\n";
}

}  // namespace trainer
