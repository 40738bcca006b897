// Members of movable handles: the use of a moved-from handle is an Error instead of a crash.
//
// Every movable handle of this library keeps its data in them (tools/check_handles.py), so its functions need no
// checks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace fsdp::detail {

// Throws Error: this `type` was moved from.
[[noreturn]] void throw_moved_from(const char* type);

// A string as a template argument.
template <size_t kLength>
struct TypeName {
  consteval TypeName(const char (&name)[kLength]) { std::copy_n(name, kLength, text); }  // NOLINT: a literal converts
  char text[kLength] = {};
};

// A value, until it is moved away. `kOwner` is the handle's name, for the message. A copy of a moved-from one is
// moved-from.
template <TypeName kOwner, typename Value>
class Movable {
 public:
  Movable() = default;
  explicit Movable(Value value) : value_(std::move(value)) {}
  Movable(const Movable&) = default;
  Movable& operator=(const Movable&) = default;
  Movable(Movable&& other) noexcept
      : value_(std::move(other.value_)), is_moved_from_(std::exchange(other.is_moved_from_, true)) {}
  Movable& operator=(Movable&& other) noexcept {
    if (this == &other) return *this;
    value_ = std::move(other.value_);
    is_moved_from_ = std::exchange(other.is_moved_from_, true);
    return *this;
  }
  ~Movable() = default;

  // Throws Error if it was moved from; so do the functions below.
  Value& get() {
    check();
    return value_;
  }
  const Value& get() const {
    check();
    return value_;
  }
  // The target, if the value is a pointer.
  auto& operator*() const { return *get(); }
  auto* operator->() const { return std::to_address(get()); }

  // For destructors, which have nothing to do then.
  bool is_moved_from() const noexcept { return is_moved_from_; }

 private:
  void check() const {
    if (is_moved_from_) [[unlikely]]
      throw_moved_from(kOwner.text);
  }

  Value value_;
  bool is_moved_from_ = false;
};

}  // namespace fsdp::detail
