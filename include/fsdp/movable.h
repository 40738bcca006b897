// The members of handles that can be moved: use of a handle that was moved from is an Error, and no crash.
//
// Every handle of this library that can be moved keeps its data in these (tools/check_handles.py), so that no function
// of it needs a check of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace fsdp::detail {

// Throws Error: this `type` was moved from.
[[noreturn]] void throw_moved_from(const char* type);

// A text as a template's argument.
template <size_t kLength>
struct TypeName {
  consteval TypeName(const char (&name)[kLength]) { std::copy_n(name, kLength, text); }  // NOLINT: a literal converts
  char text[kLength] = {};
};

// A value, until it is moved away: `kOwner` is the handle's name, for the message. A copy of one without a value has
// none either.
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

  // Throws Error where it was moved from; so do the next ones.
  Value& get() {
    check();
    return value_;
  }
  const Value& get() const {
    check();
    return value_;
  }
  // The target, where the value is a pointer.
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
