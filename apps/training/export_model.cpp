#include "training/export_model.h"

#include "files/durable_file.h"
#include "models/hugging_face_config.h"
#include "models/hugging_face_weights.h"
#include "training/export_tokenizer.h"

namespace trainer {

namespace fs = std::filesystem;

fs::path model_folder(const RunOptions& options) { return fs::path(options.run) / "model"; }

namespace {

void save(const fs::path& folder, Training& training, fsdp::PretrainedOptions options) {
  options.mesh = training.mesh.mesh();
  for (const models::Unit& unit : models::units(training.options.model)) {
    for (const models::Parameter& parameter : unit.parameters) options.order.push_back(parameter.name);
  }
  fsdp::save_pretrained(folder, training.sharded, options);
}

// The adapters alone, for who has the weights that they were trained on.
void export_adapter(Training& training) {
  const RunOptions& options = training.options;
  const fs::path folder = fs::path(options.run) / "adapter";
  save(folder, training, models::adapter_options(options.model));
  if (training.world.rank() != 0) return;
  std::error_code ignored;
  const std::string& base = options.model_options.init_from;
  fsdp::files::write_durably(
      folder / "adapter_config.json",
      models::adapter_config(options.model, base.empty() ? base : fs::absolute(base, ignored).string()));
  fs::rename(folder / "model.safetensors", folder / "adapter_model.safetensors");
}

}  // namespace

void export_model(Training& training) {
  const fs::path folder = model_folder(training.options);
  save(folder, training, models::pretrained_options(training.options.model));
  if (training.world.rank() == 0) {
    fsdp::files::write_durably(folder / "config.json", models::hugging_face_config(training.options.model));
    if (const auto& tokenizer = training.corpus.tokenizer) {
      export_tokenizer(folder, *tokenizer, training.options.model.context);
    }
  }
  if (training.options.model.lora) export_adapter(training);
}

}  // namespace trainer
