#include "models/stored_lists.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "checkpoint/manifest.h"
#include "files/json.h"
#include "files/printable.h"
#include "files/reading.h"
#include "models/element_names.h"

namespace models {

namespace {

namespace fs = std::filesystem;
using fsdp::files::Json;
using fsdp::files::printable;

constexpr int64_t kLongestHeader = 100'000'000;  // bytes, as the reference implementation
constexpr size_t kShown = 60;                    // characters of a value in a message

std::string excerpt(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)).substr(0, kShown);
}

std::vector<int64_t> shape_in(const Json& tensor, const std::string& name, const std::string& origin) {
  const auto found = tensor.find("shape");
  std::vector<int64_t> shape;
  const bool is_list = found != tensor.end() && found->is_array();
  for (const Json& size : is_list ? *found : Json::array()) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > (uint64_t{1} << 62)) break;
    shape.push_back(size.get<int64_t>());
  }
  if (!is_list || shape.size() != found->size())
    throw fsdp::Error(fmt::format("{} is damaged: found the shape {} of '{}', expected a list of whole numbers.",
                                  origin, found == tensor.end() ? "nothing" : excerpt(*found), printable(name)));
  return shape;
}

// The first byte of a tensor. 0 for a damaged place: a plan needs the order alone.
uint64_t begin_of(const Json& tensor) {
  const auto found = tensor.find("data_offsets");
  const bool is_pair = found != tensor.end() && found->is_array() && !found->empty();
  return is_pair && (*found)[0].is_number_unsigned() ? (*found)[0].get<uint64_t>() : 0;
}

// Tensors of whole numbers, and the statistics of LibTorch's norms.
bool is_buffer(const std::string& name, const Json& tensor, const std::string& origin) {
  const auto found = tensor.find("dtype");
  const auto kind =
      found != tensor.end() && found->is_string() ? element_kind(found->get<std::string>()) : std::nullopt;
  if (!kind)
    throw fsdp::Error(
        fmt::format("{} is damaged: found the dtype {} of '{}', expected one of safetensors, such as F32.", origin,
                    found == tensor.end() ? "nothing" : excerpt(*found), printable(name)));
  return *kind == ElementKind::Whole || name.ends_with("running_mean") || name.ends_with("running_var");
}

ParameterList listed_in(std::string_view header, const std::string& origin) {
  const Json json = fsdp::files::parse_json(header, origin);
  if (!json.is_object())
    throw fsdp::Error(fmt::format("{} is damaged: found {}, expected a JSON object with a tensor for each name.",
                                  origin, excerpt(json)));
  std::vector<std::pair<uint64_t, ListedParameter>> by_place;
  ParameterList list;
  for (const auto& [name, tensor] : json.items()) {
    if (name == "__metadata__") continue;
    if (!tensor.is_object())
      throw fsdp::Error(fmt::format("{} is damaged: found {} for '{}', expected an object with dtype and shape.",
                                    origin, excerpt(tensor), printable(name)));
    if (is_buffer(name, tensor, origin)) {
      ++list.buffers;
    } else {
      by_place.emplace_back(begin_of(tensor), ListedParameter{name, shape_in(tensor, name, origin)});
    }
  }
  std::ranges::sort(by_place, {}, [](const auto& one) { return std::pair(one.first, one.second.name); });
  for (auto& [place, parameter] : by_place) list.parameters.push_back(std::move(parameter));
  return list;
}

std::string header_of(const fs::path& path, const std::string& origin) {
  const fsdp::files::OpenFile file = fsdp::files::open_regular(path, origin);
  uint64_t length = 0;
  fsdp::files::read_exactly(file, 0, &length, sizeof length, origin);
  const auto most = static_cast<uint64_t>(std::min(kLongestHeader, file.bytes - static_cast<int64_t>(sizeof length)));
  if (length > most)
    throw fsdp::Error(
        fmt::format("{} is damaged: found a header of {} bytes, expected at most {}. Is it a file of "
                    "safetensors?",
                    origin, length, most));
  std::string header(length, '\0');
  fsdp::files::read_exactly(file, sizeof length, header.data(), header.size(), origin);
  return header;
}

// The files that the index names, once each.
std::set<std::string> files_of(const fs::path& index, const std::string& origin) {
  const Json json = fsdp::files::read_json(index, origin, kLongestHeader);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object())
    throw fsdp::Error(fmt::format("{} is damaged: found no weight_map, expected a file for each tensor.", origin));
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == ".." || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      throw fsdp::Error(fmt::format("{} is damaged: found the file {} of '{}', expected the name of a file beside it.",
                                    origin, excerpt(file), printable(tensor)));
    files.insert(name);
  }
  return files;
}

}  // namespace

ParameterList parse_safetensors_header(std::string_view header, const std::string& origin) {
  ParameterList list = listed_in(header, origin);
  check_listed(list, origin);
  return list;
}

ParameterList read_safetensors_list(const fs::path& file, const std::string& origin) {
  return parse_safetensors_header(header_of(file, origin), origin);
}

ParameterList read_safetensors_index(const fs::path& index, const std::string& origin) {
  ParameterList all;
  std::set<std::string> names;
  for (const std::string& name : files_of(index, origin)) {
    const fs::path file = index.parent_path() / name;
    const std::string shown_file = fmt::format("parameters '{}'", printable(file.string()));
    ParameterList list = listed_in(header_of(file, shown_file), shown_file);
    all.buffers += list.buffers;
    for (ListedParameter& parameter : list.parameters) {
      if (!names.insert(parameter.name).second)
        throw fsdp::Error(
            fmt::format("{}: found the tensor '{}' in two files, expected it in one. Write the files anew.", origin,
                        printable(parameter.name)));
      all.parameters.push_back(std::move(parameter));
    }
  }
  check_listed(all, origin);
  return all;
}

ParameterList read_checkpoint_list(const fs::path& folder, const std::string& origin) {
  const fsdp::checkpoint::Manifest manifest = fsdp::checkpoint::read_manifest(folder);
  ParameterList list{.buffers = std::ssize(manifest.buffers)};
  for (const fsdp::checkpoint::Manifest::Parameter& parameter : manifest.parameters)
    list.parameters.push_back({parameter.name, parameter.shape});
  check_listed(list, origin);
  return list;
}

}  // namespace models
