#include "files/json.h"

#include <fmt/format.h>

#include <limits>
#include <set>
#include <vector>

#include "files/printable.h"
#include "files/reading.h"
#include "fsdp/error.h"

namespace fsdp::files {

namespace {

// Looks at brackets alone: the parser says whether they match.
bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// nlohmann's parser keeps the last value of a key that is given twice, and says nothing.
class KeysOnce {
 public:
  KeysOnce(const std::string& name, size_t most) : name_(name), most_(most) {}

  template <typename AnyJson>
  bool operator()(int, nlohmann::detail::parse_event_t event, AnyJson& parsed) {
    using Event = nlohmann::detail::parse_event_t;
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) add(parsed.template get_ref<const std::string&>());
    return true;
  }

 private:
  void add(const std::string& key) {
    std::set<std::string>& keys = keys_.back();
    if (!keys.insert(key).second) throw Error(fmt::format("{} is damaged: it names {} twice.", name_, printable(key)));
    if (keys.size() > most_) throw Error(fmt::format("{} has an object of more than {} keys.", name_, most_));
  }

  const std::string& name_;
  size_t most_;
  std::vector<std::set<std::string>> keys_;
};

template <typename AnyJson>
AnyJson parse(std::string_view text, const std::string& name, size_t most_keys) {
  if (nests_too_deep(text)) {
    throw Error(fmt::format("{} is damaged: its values nest deeper than {} levels.", name, kDeepestJson));
  }
  try {
    return AnyJson::parse(text, KeysOnce(name, most_keys));
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{} is damaged: {}.", name, printable(error.what())));
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  return parse<Json>(text, name, std::numeric_limits<size_t>::max());
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& name) {
  return parse<OrderedJson>(text, name, kMostOrderedKeys);
}

Json read_json(const std::filesystem::path& path, const std::string& name, int64_t most) {
  return parse_json(read_whole(path, name, most), name);
}

OrderedJson read_ordered_json(const std::filesystem::path& path, const std::string& name, int64_t most) {
  return parse_ordered_json(read_whole(path, name, most), name);
}

int64_t whole_number(const Json& object, const std::string& key, const std::string& name, int64_t least, int64_t most) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  const auto fail = [&](const std::string& what) {
    throw Error(fmt::format("{} is damaged: found {} for '{}', expected a whole number from {} to {}.", name, what, key,
                            least, most));
  };
  if (!object.is_object() || found == object.end()) fail("nothing");
  const Json& value = *found;
  // A number without a sign or fraction that fits into 64 bits is unsigned to the parser.
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                        : value.is_number_integer();
  const std::string text = printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most) fail(text.substr(0, 100));
  return value.get<int64_t>();
}

}  // namespace fsdp::files
