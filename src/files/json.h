// The only reader of JSON files. Deep nesting would overflow the stack of code that walks it, so it is refused before
// parsing. An object with one key twice is refused, too.
//
// Free to call from any thread. Errors are fsdp::Error and have no prefix: apps/ uses this room too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fsdp::files {

using Json = nlohmann::json;                 // keys in the order of their letters
using OrderedJson = nlohmann::ordered_json;  // keys in the order of the file, of which few are wanted

inline constexpr int kDeepestJson = 64;
inline constexpr size_t kMostOrderedKeys = 4096;  // of an object: each is compared with those before it

// `name` begins the messages: "manifest 'run/step-5/manifest.json'". Throws Error for what is no JSON, nests deeper
// than kDeepestJson, or gives a key twice.
Json parse_json(std::string_view text, const std::string& name);
// An object with more than kMostOrderedKeys is an error, too.
OrderedJson parse_ordered_json(std::string_view text, const std::string& name);

// Both for a regular file of at most `most` bytes.
Json read_json(const std::filesystem::path& path, const std::string& name, int64_t most);
OrderedJson read_ordered_json(const std::filesystem::path& path, const std::string& name, int64_t most);

// The member `key` of an object as a whole number from `least` to `most`: fractions, strings and what overflows are
// errors, and so is an object without it.
int64_t whole_number(const Json& object, const std::string& key, const std::string& name, int64_t least, int64_t most);

}  // namespace fsdp::files
