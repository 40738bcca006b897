#include "models/parameter_list.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "files/printable.h"
#include "files/reading.h"
#include "models/stored_lists.h"

namespace models {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestText = int64_t{1} << 28;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// None beyond kMostListed.
std::optional<int64_t> numel_within(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(numel, size, &numel) || numel > kMostListed) return std::nullopt;
  }
  return numel;
}

// The first character that is no space; 0 where there is none, or the file cannot be read.
char first_character(const fs::path& file) {
  std::ifstream text(file, std::ios::binary);
  char first = '\0';
  text >> first;
  return text ? first : '\0';
}

}  // namespace

int64_t ListedParameter::numel() const { return numel_within(shape).value_or(0); }

int64_t ParameterList::numel() const {
  int64_t numel = 0;
  for (const ListedParameter& parameter : parameters) numel += parameter.numel();
  return numel;
}

void check_listed(const ParameterList& list, const std::string& origin) {
  int64_t left = kMostListed;
  for (const ListedParameter& parameter : list.parameters) {
    const std::optional<int64_t> numel = numel_within(parameter.shape);
    if (!numel || *numel > left)
      throw fsdp::Error(
          fmt::format("{}: found more than 2^53 elements up to the parameter '{}', expected at most 2^53 "
                      "in a model. Correct the shapes.",
                      origin, fsdp::files::printable(parameter.name)));
    left -= *numel;
  }
  if (left == kMostListed)
    throw fsdp::Error(
        fmt::format("{}: found {} parameters without elements, expected at least 1 element. Give a line "
                    "such as: decoder.weight [4096, 1024]",
                    origin, list.parameters.size()));
}

std::optional<fs::path> list_of_parameters(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const char* name : {"manifest.json", "config.json", "model.safetensors.index.json", "model.safetensors"}) {
      if (is_file(path / name))
        return name == std::string_view("config.json") ? std::nullopt : std::optional(path / name);
    }
    return std::nullopt;
  }
  if (!is_file(path) || path.extension() == ".toml") return std::nullopt;
  const std::string name = path.filename().string();
  const bool is_stored = name == "manifest.json" || name.ends_with(".index.json") || name.ends_with(".safetensors");
  if (!is_stored && (path.extension() == ".json" || first_character(path) == '{')) return std::nullopt;
  return path;
}

ParameterList read_parameter_list(const fs::path& file) {
  const std::string origin = fmt::format("parameters '{}'", fsdp::files::printable(file.string()));
  const std::string name = file.filename().string();
  if (name == "manifest.json") return read_checkpoint_list(file.parent_path(), origin);
  if (name.ends_with(".index.json")) return read_safetensors_index(file, origin);
  if (name.ends_with(".safetensors")) return read_safetensors_list(file, origin);
  return parse_parameter_list(fsdp::files::read_whole(file, origin, kLongestText), origin);
}

}  // namespace models
