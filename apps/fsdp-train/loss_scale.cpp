#include "loss_scale.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace trainer {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {
fs::path path_of(const std::string& checkpoint) { return fs::path(checkpoint) / "loss_scale.json"; }
}  // namespace

void save_loss_scale(const std::string& checkpoint, const fsdp::GradScaler& scaler) {
  const fsdp::GradScaler::State state = scaler.state();
  std::ofstream file(path_of(checkpoint));
  file << Json{{"scale", state.scale}, {"finite_steps", state.finite_steps}}.dump() << std::endl;
  if (!file) throw fsdp::Error(fmt::format("'{}' cannot be written.", path_of(checkpoint).string()));
}

void load_loss_scale(const std::string& checkpoint, fsdp::GradScaler& scaler) {
  std::ifstream file(path_of(checkpoint));
  if (!file) return;
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto is_number = [&](const char* key) { return json.contains(key) && json[key].is_number(); };
  if (!json.is_object() || !is_number("scale") || !is_number("finite_steps")) {
    throw fsdp::Error(
        fmt::format("'{}' is damaged: expected a scale and its finite_steps. Without the file the scale "
                    "begins anew.",
                    path_of(checkpoint).string()));
  }
  scaler.load_state({.scale = json["scale"], .finite_steps = json["finite_steps"]});
}

}  // namespace trainer
