// Text from files and from other users, as it may be shown on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace fsdp::files {

// `text` in UTF-8 with every control character, bytes that are no UTF-8, and the marks that reorder text made visible:
// an escape becomes \x1b, a right-to-left override \u202e. A terminal that shows the result obeys nothing in it.
// `printable` shows newlines and tabs so as well, `printable_lines` keeps them. Pure.
std::string printable(std::string_view text);
std::string printable_lines(std::string_view text);

}  // namespace fsdp::files
