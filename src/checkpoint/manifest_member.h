// A value in a manifest, read with its place in the file, which messages name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "files/json.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

inline constexpr int64_t kLargestSize = int64_t{1} << 62;

// The value at "parameters[3].shape", for one. Every call throws Error where the value is another than it asks for.
class Member {
 public:
  Member(const files::Json* value, std::string place, const std::string& file)
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
    if (is_there() && value_->is_number_unsigned()) {  // as nearly all are: large manifests have many
      const auto found = value_->get<uint64_t>();
      if (found <= static_cast<uint64_t>(most) && static_cast<int64_t>(found) >= least)
        return static_cast<int64_t>(found);
    }
    return files::whole_number(is_there() ? files::Json::object({{place_, *value_}}) : files::Json::object(), place_,
                               file_, least, most);
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
        is_there() ? files::printable(value_->dump(-1, ' ', true, files::Json::error_handler_t::replace)) : "nothing";
    throw_error(message_prefix() + fmt::format("{} is damaged: found {} for '{}', expected {}.", file_,
                                               found.substr(0, kMostShown), place_, expected));
  }

 private:
  static constexpr size_t kMostShown = 100;  // characters of a value in a message

  const files::Json* value_;  // null: it is not there
  std::string place_;
  const std::string& file_;
};

}  // namespace fsdp::checkpoint
