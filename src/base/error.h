// Checks that turn what went wrong into a message for a person.
//
// FSDP_CHECK is for what a user can cause and throws fsdp::Error; FSDP_INVARIANT is for our own bugs. Both take a
// condition, then a fmt format string and its arguments, evaluated only when the condition fails.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "fsdp/error.h"

namespace fsdp {

// The start of every message: "[fsdp rank 3/8] " once the rank is known (rank_names.h), "[fsdp] " before.
std::string message_prefix();
// As above, with the unit that is concerned: "[fsdp rank 3/8 unit=blocks.4] ".
std::string message_prefix(const std::string& unit);

[[noreturn]] void throw_error(const std::string& message);
[[noreturn]] void throw_invariant(const char* file, int line, const std::string& message);

}  // namespace fsdp

#define FSDP_CHECK(condition, ...)                                                \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::fsdp::throw_error(::fsdp::message_prefix() + ::fmt::format(__VA_ARGS__)); \
  } while (false)

// As above, naming the unit.
#define FSDP_CHECK_UNIT(condition, unit, ...)                                         \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::fsdp::throw_error(::fsdp::message_prefix(unit) + ::fmt::format(__VA_ARGS__)); \
  } while (false)

#define FSDP_INVARIANT(condition, ...)                                         \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::fsdp::throw_invariant(__FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
