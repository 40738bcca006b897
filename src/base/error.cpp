#include "base/error.h"

#include <cstring>

#include "fsdp/movable.h"

namespace fsdp {

namespace {

// Written once, when the process becomes a rank; read by every message.
std::string& rank_text() {
  static std::string text;
  return text;
}

}  // namespace

void set_message_rank(int rank, int size) { rank_text() = fmt::format(" rank {}/{}", rank, size); }

std::string message_prefix() { return "[fsdp" + rank_text() + "] "; }

std::string message_prefix(const std::string& unit) { return "[fsdp" + rank_text() + " unit=" + unit + "] "; }

void throw_error(const std::string& message) { throw Error(message); }

void throw_invariant(const char* file, int line, const std::string& message) {
  const char* name = std::strrchr(file, '/');
  throw std::logic_error(fmt::format("{}internal error at {}:{}: {}. This is a bug in libfsdp; please report it.",
                                     message_prefix(), name ? name + 1 : file, line, message));
}

void detail::throw_moved_from(const char* type) {
  throw Error(fmt::format("{}this {} was moved from and is empty. Use the handle that it was moved to.",
                          message_prefix(), type));
}

}  // namespace fsdp
