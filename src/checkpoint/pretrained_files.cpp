#include "checkpoint/pretrained_files.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "checkpoint/problems.h"
#include "files/json.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDamagedAdvice = "Fetch the files again.";

// An index may name a file beside it only. A zero byte would end the name for the system and not for us.
bool is_bare_name(const std::string& name) {
  const auto leads_elsewhere = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' '; };
  return name.ends_with(".safetensors") && std::none_of(name.begin(), name.end(), leads_elsewhere);
}

// Safe to print, and whole in a message, whatever is in it.
std::string quoted(const std::string& name) { return files::printable(files::Json(name).dump()); }

std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  const files::Json json = files::read_json(index, index.string(), kMostBytes);
  const bool has_map = json.is_object() && json.contains("weight_map") && json["weight_map"].is_object();
  FSDP_CHECK(has_map, "{} is damaged: expected an object with a weight_map, which is an object too", index.string());
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, file] : json["weight_map"].items()) {
    FSDP_CHECK(file.is_string(), "{} is damaged: tensor {} lies in {}, expected the name of a file", index.string(),
               quoted(name), file.dump());
    weight_map[name] = file.get<std::string>();
  }
  return weight_map;
}

// The files that the map names, where there is nothing wrong with their names.
std::set<std::string> files_of(const std::map<std::string, std::string>& weight_map, const fs::path& index) {
  std::set<std::string> names;
  for (const auto& named : weight_map) names.insert(named.second);
  std::vector<std::string> problems;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (!is_bare_name(name)) {
      problems.push_back(
          fmt::format("it names the file {}, expected the bare name of a .safetensors file beside it", quoted(name)));
    } else if (!fs::is_regular_file(index.parent_path() / name, ignored)) {
      problems.push_back(fmt::format("it names the file {}, which is missing", quoted(name)));
    }
  }
  throw_if_any(problems, index.string(), kDamagedAdvice);
  return names;
}

}  // namespace

PretrainedFiles::PretrainedFiles(const fs::path& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const fs::path file = !folder ? path : fs::exists(path / kModelName, ignored) ? path / kModelName : path / kIndexName;
  FSDP_CHECK(fs::exists(file, ignored), "{}: found {}, expected a folder with {} or {}, or one of these files",
             path.string(), folder ? "neither" : "nothing", kModelName, kIndexName);
  if (file.extension() == ".json") {
    open_indexed(file);
  } else {
    open(file);
  }
}

void PretrainedFiles::open(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& entry : files_.back()->entries()) {
    const bool fresh = tensors_.emplace(entry.name, Tensor{files_.back().get(), &entry}).second;
    FSDP_CHECK(fresh, "{}: tensor {} lies in another file too. {}", file.string(), entry.name, kDamagedAdvice);
  }
}

void PretrainedFiles::open_indexed(const fs::path& index) {
  const std::map<std::string, std::string> weight_map = read_weight_map(index);
  std::vector<std::string> problems;
  size_t found = 0;
  for (const std::string& name : files_of(weight_map, index)) {
    open(index.parent_path() / name);
    for (const auto& entry : files_.back()->entries()) {
      const auto indexed = weight_map.find(entry.name);
      if (indexed != weight_map.end() && indexed->second == name) {
        ++found;
      } else {
        problems.push_back(fmt::format("tensor {} lies in {}, expected it in {}", entry.name, name,
                                       indexed == weight_map.end() ? "no file" : indexed->second));
      }
    }
  }
  for (const auto& [tensor, name] : weight_map) {
    if (found == weight_map.size()) break;
    if (!tensors_.contains(tensor)) problems.push_back(fmt::format("tensor {} is missing in {}", tensor, name));
  }
  throw_if_any(problems, index.string(), kDamagedAdvice);
}

}  // namespace fsdp::checkpoint
