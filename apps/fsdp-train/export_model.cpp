#include "export_model.h"

#include <fmt/format.h>

#include <fstream>

#include "models/hugging_face_config.h"
#include "models/hugging_face_weights.h"

namespace trainer {

std::filesystem::path model_folder(const Options& options) { return std::filesystem::path(options.run) / "model"; }

void export_model(Training& training) {
  const std::filesystem::path folder = model_folder(training.options);
  fsdp::save_pretrained(folder, training.sharded, models::pretrained_options(training.options.model));
  if (training.world.rank() != 0) return;
  std::ofstream file(folder / "config.json");
  file << models::hugging_face_config(training.options.model) << std::flush;
  if (!file) throw fsdp::Error(fmt::format("'{}' cannot be written.", (folder / "config.json").string()));
}

}  // namespace trainer
