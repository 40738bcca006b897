#include "base/error.h"

#include <cstring>

#include "base/rank_names.h"
#include "fsdp/movable.h"

namespace fsdp {

std::string message_prefix() { return "[fsdp" + text_of_this_rank() + "] "; }

std::string message_prefix(const std::string& unit) { return "[fsdp" + text_of_this_rank() + " unit=" + unit + "] "; }

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
