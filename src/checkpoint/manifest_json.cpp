#include "checkpoint/manifest_json.h"

#include <set>
#include <utility>

#include "base/error.h"
#include "files/content_hash.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

using files::Json;
using files::OrderedJson;

constexpr int kOldestVersion = 2;
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kLargestSize = int64_t{1} << 62;
constexpr size_t kMostShown = 100;  // characters of a value in a message

// A value in the manifest and its place there, "parameters[3].shape", for messages.
class Member {
 public:
  Member(const Json* value, std::string place, const std::string& file)
      : value_(value), place_(std::move(place)), file_(file) {}

  bool is_there() const { return value_ != nullptr; }

  // The member of an object, which may not be there.
  Member operator[](const char* key) const {
    if (!is_there() || !value_->is_object()) fail("an object");
    const auto found = value_->find(key);
    return {found == value_->end() ? nullptr : &*found, place_.empty() ? key : fmt::format("{}.{}", place_, key),
            file_};
  }
  std::string text() const {
    if (!is_there() || !value_->is_string()) fail("a text");
    return value_->get<std::string>();
  }
  int64_t number(int64_t least, int64_t most) const {
    return files::whole_number(is_there() ? Json::object({{place_, *value_}}) : Json::object(), place_, file_, least,
                               most);
  }
  double scalar(const std::string& kind) const {
    if (!is_there() || !value_->is_number()) fail("a number");
    const auto number = value_->get<double>();
    if (!is_scalar_of(kind, number)) fail(fmt::format("a whole number from 0 to {}", kHighestStep));
    return number;
  }
  // Calls take(member) for each of a list.
  template <typename Take>
  void each(const Take& take) const {
    if (!is_there() || !value_->is_array()) fail("a list");
    for (size_t i = 0; i < value_->size(); ++i) take(Member(&(*value_)[i], fmt::format("{}[{}]", place_, i), file_));
  }
  // Calls take(name, member) for each of an object.
  template <typename Take>
  void each_by_name(const Take& take) const {
    if (!is_there() || !value_->is_object()) fail("values by their names");
    for (const auto& [name, one] : value_->items()) {
      take(name, Member(&one, fmt::format("{}.{}", place_, files::printable(name)), file_));
    }
  }
  // A list of two.
  std::pair<Member, Member> pair(const char* expected) const {
    if (!is_there() || !value_->is_array() || value_->size() != 2) fail(expected);
    return {Member(&(*value_)[0], place_ + "[0]", file_), Member(&(*value_)[1], place_ + "[1]", file_)};
  }
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> sizes;
    each([&](const Member& size) { sizes.push_back(size.number(0, kLargestSize)); });
    return sizes;
  }
  std::map<std::string, std::string> texts() const {
    std::map<std::string, std::string> texts;
    each_by_name([&](const std::string& name, const Member& text) { texts[name] = text.text(); });
    return texts;
  }

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string found =
        is_there() ? files::printable(value_->dump(-1, ' ', true, Json::error_handler_t::replace)) : "nothing";
    throw_error(message_prefix() + fmt::format("{} is damaged: found {} for '{}', expected {}.", file_,
                                               found.substr(0, kMostShown), place_, expected));
  }

 private:
  const Json* value_;  // null: it is not there
  std::string place_;
  const std::string& file_;
};

// A name that no other has, which would be loaded in its place.
std::string new_name(const Member& one, std::set<std::string>& names) {
  std::string name = one["name"].text();
  if (!names.insert(name).second) one["name"].fail("a name that none before has");
  return name;
}

// They make up the parameter.
std::vector<Manifest::Piece> pieces_in(const Member& one, const Manifest& manifest) {
  std::vector<Manifest::Piece> pieces;
  const std::optional<int64_t> numel = numel_of(one["shape"].sizes());
  if (!numel) one["shape"].fail("as many elements as memory can hold");
  const auto fail = [&](int64_t found) {
    one["pieces"].fail(fmt::format("pieces with the {} elements of its shape; these have {}", *numel, found));
  };
  int64_t shard = -1, left = *numel;
  one["pieces"].each([&](const Member& piece) {
    const auto [of, numel_of_piece] = piece.pair("a shard and a size");
    shard = of.number(shard + 1, manifest.shards - 1);
    const int64_t size = numel_of_piece.number(1, kLargestSize);
    if (size > left) fail(*numel - left + size);
    pieces.push_back({static_cast<int>(shard), size});
    left -= size;
  });
  if (left != 0) fail(*numel - left);
  return pieces;
}

Manifest::Parameter parameter_in(const Member& one, const Manifest& manifest, std::set<std::string>& names) {
  Manifest::Parameter parameter{new_name(one, names), one["shape"].sizes(), one["strides"].sizes()};
  if (manifest.version == kOldestVersion) return parameter;
  parameter.tensors = one["tensors"].texts();
  if (!parameter.tensors.contains("model")) one["tensors"].fail("the dtype of 'model' among them");
  one["scalars"].each_by_name(
      [&](const std::string& kind, const Member& number) { parameter.scalars[kind] = number.scalar(kind); });
  parameter.pieces = pieces_in(one, manifest);
  return parameter;
}

WrittenFile file_in(const Member& one, size_t number, const Manifest& manifest) {
  const std::string expected = shard_file_name(static_cast<int>(number), manifest.shards);
  if (one["name"].text() != expected) one["name"].fail(expected);
  WrittenFile file{one["bytes"].number(0, kLargestSize), one["hash"].text()};
  if (file.hash.size() != files::kHashDigits) one["hash"].fail(fmt::format("{} digits", files::kHashDigits));
  return file;
}

}  // namespace

void check_format(const Json& json, const std::string& file) {
  const auto text_of = [&](const char* key) { return json.contains(key) ? json[key].dump() : "none"; };
  FSDP_CHECK(json.is_object() && text_of("format") == Json(kManifestFormat).dump(),
             "{}: found JSON of another kind, expected format {}", file, kManifestFormat);
  const std::string found = text_of("version");
  FSDP_CHECK(found == std::to_string(kManifestVersion) || found == std::to_string(kOldestVersion),
             "{}: found version {} of the format, expected {} or {}. It was saved by another version of this library.",
             file, found, kOldestVersion, kManifestVersion);
}

Manifest manifest_in(const Json& json, const std::string& file) {
  const Member all(&json, "", file);
  Manifest manifest;
  manifest.world_size = static_cast<int>(all["world_size"].number(1, kMostRanks));
  manifest.shards = static_cast<int>(all["shards"].number(1, manifest.world_size));
  manifest.step = all["step"].number(0, kHighestStep);
  manifest.version = static_cast<int>(all["version"].number(kOldestVersion, kManifestVersion));
  manifest.notes = all["notes"].texts();
  all["files"].each(
      [&](const Member& one) { manifest.files.push_back(file_in(one, manifest.files.size(), manifest)); });
  FSDP_CHECK(static_cast<int>(manifest.files.size()) == manifest.shards,
             "{} is damaged: it names {} files, expected {}", file, manifest.files.size(), manifest.shards);
  std::set<std::string> parameters, buffers;
  all["parameters"].each(
      [&](const Member& one) { manifest.parameters.push_back(parameter_in(one, manifest, parameters)); });
  if (manifest.version == kOldestVersion) return manifest;
  all["buffers"].each([&](const Member& one) {
    manifest.buffers.push_back({new_name(one, buffers), one["shape"].sizes(), one["dtype"].text()});
  });
  if (!all["generators"].is_there()) return manifest;
  all["generators"].each([&](const Member& one) {
    const std::string name = one["name"].text();
    const bool is_next = manifest.generators.empty() || manifest.generators.back().name < name;
    if (!is_next) one["name"].fail("names in the order of their letters");
    manifest.generators.push_back({name, one["bytes"].number(0, kLargestSize)});
  });
  return manifest;
}

OrderedJson json_of(const Manifest& manifest) {
  OrderedJson parameters = OrderedJson::array(), buffers = OrderedJson::array(), shard_files = OrderedJson::array();
  for (const auto& parameter : manifest.parameters) {
    OrderedJson pieces = OrderedJson::array();
    for (const auto& [shard, numel] : parameter.pieces) pieces.push_back(OrderedJson::array({shard, numel}));
    parameters.push_back({{"name", parameter.name},
                          {"shape", parameter.shape},
                          {"strides", parameter.strides},
                          {"tensors", parameter.tensors},
                          {"scalars", parameter.scalars},
                          {"pieces", pieces}});
  }
  for (const auto& buffer : manifest.buffers) {
    buffers.push_back({{"name", buffer.name}, {"shape", buffer.shape}, {"dtype", buffer.dtype}});
  }
  OrderedJson generators = OrderedJson::array();
  for (const auto& generator : manifest.generators) {
    generators.push_back({{"name", generator.name}, {"bytes", generator.bytes}});
  }
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    shard_files.push_back({{"name", shard_file_name(static_cast<int>(i), manifest.shards)},
                           {"bytes", manifest.files[i].bytes},
                           {"hash", manifest.files[i].hash}});
  }
  OrderedJson json = {{"hash", std::string(files::kHashDigits, '0')},
                      {"format", kManifestFormat},
                      {"version", kManifestVersion},
                      {"world_size", manifest.world_size},
                      {"shards", manifest.shards},
                      {"step", manifest.step},
                      {"notes", manifest.notes},
                      {"files", shard_files},
                      {"parameters", parameters},
                      {"buffers", buffers}};
  if (!manifest.generators.empty()) json["generators"] = std::move(generators);
  return json;
}

}  // namespace fsdp::checkpoint
