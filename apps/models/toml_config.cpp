#include "models/toml_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <array>
#include <variant>

#include "toml/guarded.h"

namespace models {

namespace {

using Field = std::variant<int64_t ModelConfig::*, std::optional<int64_t> ModelConfig::*, double ModelConfig::*,
                           bool ModelConfig::*>;

struct Key {
  const char* name;
  Field field;
};

const std::array<Key, 17> kKeys = {{{"vocabulary", &ModelConfig::vocabulary},
                                    {"context", &ModelConfig::context},
                                    {"width", &ModelConfig::width},
                                    {"layers", &ModelConfig::layers},
                                    {"heads", &ModelConfig::heads},
                                    {"key_value_heads", &ModelConfig::key_value_heads},
                                    {"head_width", &ModelConfig::head_width},
                                    {"mlp_width", &ModelConfig::mlp_width},
                                    {"norm_epsilon", &ModelConfig::norm_epsilon},
                                    {"rope_theta", &ModelConfig::rope_theta},
                                    {"tied_embeddings", &ModelConfig::tied_embeddings},
                                    {"attention_bias", &ModelConfig::attention_bias},
                                    {"mlp_bias", &ModelConfig::mlp_bias},
                                    {"initializer_range", &ModelConfig::initializer_range},
                                    {"embedding_dropout", &ModelConfig::embedding_dropout},
                                    {"attention_dropout", &ModelConfig::attention_dropout},
                                    {"residual_dropout", &ModelConfig::residual_dropout}}};

const char* kind_of(const Field& field) {
  if (std::holds_alternative<double ModelConfig::*>(field)) return "a number";
  return std::holds_alternative<bool ModelConfig::*>(field) ? "true or false" : "a whole number";
}

// True if the value is of the field's kind; sets it.
bool set(ModelConfig& config, const Field& field, const toml::node& value) {
  return std::visit(
      [&](auto member) {
        using Target = std::remove_reference_t<decltype(config.*member)>;
        if constexpr (std::is_same_v<Target, double>) {
          const auto number = value.value<double>();  // whole numbers are numbers
          if (number && !value.is_boolean()) config.*member = *number;
          return number.has_value() && !value.is_boolean();
        } else {
          using Kind = std::conditional_t<std::is_same_v<Target, bool>, bool, int64_t>;
          const auto exact = value.value_exact<Kind>();
          if (exact) config.*member = *exact;  // NOLINT(bugprone-optional-value-conversion): few are optional
          return exact.has_value();
        }
      },
      field);
}

std::string set_family(ModelConfig& config, const toml::node& value) {
  const auto word = value.value_exact<std::string>();
  if (word == "gpt2") config.family = Family::Gpt2;
  if (word == "llama") config.family = Family::Llama;
  return word == "gpt2" || word == "llama" ? "" : "family has to be \"gpt2\" or \"llama\"";
}

// The problem with one key, empty when there is none.
std::string set(ModelConfig& config, std::string_view name, const toml::node& value) {
  if (name == "family") return set_family(config, value);
  std::vector<std::string> names = {"family"};
  for (const Key& key : kKeys) {
    if (name == key.name)
      return set(config, key.field, value) ? "" : fmt::format("{} has to be {}", name, kind_of(key.field));
    names.emplace_back(key.name);
  }
  return fmt::format("{} is no key of a model; there are {}", name, fmt::join(names, ", "));
}

}  // namespace

ConfigFile read_toml_config(const std::filesystem::path& path) {
  ConfigFile file;
  toml::table table;
  try {
    table = guarded_toml::read(path, fmt::format("model '{}'", path.string()));
  } catch (const fsdp::Error& error) {
    file.problems.emplace_back(error.what());
    return file;
  } catch (const toml::parse_error& error) {
    file.problems.push_back(
        fmt::format("{}, line {}: {}.", path.string(), error.source().begin.line, error.description()));
    return file;
  }
  for (const auto& [name, value] : table) {
    const std::string problem = set(file.config, name.str(), value);
    if (problem.empty()) continue;
    file.problems.push_back(fmt::format("{}, line {}: {}.", path.string(), value.source().begin.line, problem));
  }
  if (!file.problems.empty()) return file;
  for (const std::string& problem : problems(file.config)) {
    file.problems.push_back(fmt::format("{}: {}", path.string(), problem));
  }
  return file;
}

}  // namespace models
