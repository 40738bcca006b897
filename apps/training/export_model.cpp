#include "training/export_model.h"

#include "files/durable_file.h"
#include "models/hugging_face_config.h"
#include "models/hugging_face_weights.h"
#include "training/export_tokenizer.h"

namespace trainer {

std::filesystem::path model_folder(const Options& options) { return std::filesystem::path(options.run) / "model"; }

void export_model(Training& training) {
  const std::filesystem::path folder = model_folder(training.options);
  fsdp::save_pretrained(folder, training.sharded, models::pretrained_options(training.options.model));
  if (training.world.rank() != 0) return;
  fsdp::files::write_durably(folder / "config.json", models::hugging_face_config(training.options.model));
  if (const auto& tokenizer = training.corpus.tokenizer) {
    export_tokenizer(folder, *tokenizer, training.options.model.context);
  }
}

}  // namespace trainer
