// A reader of Python's pickles that runs nothing (https://docs.python.org/3/library/pickletools.html).
//
// A pickle is a program for a stack machine, which in Python may call any function there is. This machine has the
// instructions that build numbers, texts, tuples, lists and dicts. A class or function in the pickle stays a name, and
// a call stays a value: a name and its arguments. The reader's caller knows the few allowed ones, and makes tensors of
// them itself. Every other name is an error. Instructions that PyTorch never writes are errors, too.
//
// Limits: kMostPickleBytes, and as many values as it has bytes, at most kMostValues; a value takes some 60 bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::formats {

inline constexpr int64_t kMostPickleBytes = int64_t{1} << 28;
inline constexpr size_t kMostValues = size_t{1} << 25;

// The values of one pickle, which name each other by number; lists and dicts may hold themselves, so that who walks
// them needs a limit. Immutable once it was read; free to share between threads.
class Pickle {
 public:
  using Id = uint32_t;
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    Tuple,
    List,  // a set is one, too
    Dict,
    Global,      // a class or function; `text` is "module.name"
    Call,        // items: a Global, its arguments (a Tuple), and what was set on the result, where something was
    Persistent,  // items: what names a thing outside of the pickle
  };
  struct Value {
    Kind kind = Kind::None;
    int64_t number = 0;          // of Bool and Int
    double real = 0;             // of Float
    std::string_view text = {};  // of Text, Bytes and Global
    std::vector<Id> items = {};  // of a Dict: keys and values in turn
  };

  // `name` begins the messages; `is_allowed` is asked for each class and function. Throws Error.
  static Pickle read(std::string bytes, const std::string& name, bool (*is_allowed)(std::string_view global));

  const Value& at(Id id) const { return values_[id]; }
  const Value& root() const { return values_[root_]; }
  Id root_id() const { return root_; }

  // The value that a Dict has under this text; none where it has nothing, or where `dict` is no Dict.
  std::optional<Id> find(const Value& dict, std::string_view key) const;
  // "torch.Size" of a Call; empty for other values.
  std::string_view called(const Value& value) const;
  // The items of a Call's arguments; none of another value.
  const std::vector<Id>& arguments(const Value& call) const;

 private:
  friend class PickleMachine;

  std::unique_ptr<const std::string> bytes_;  // that texts are views of
  std::deque<std::string> names_;             // of globals
  std::vector<Value> values_;
  Id root_ = 0;
};

}  // namespace fsdp::formats
