// Files that hold a text in a form that is not read: in UTF-16 or UTF-32, compressed, or a PDF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace data {

struct OtherForm {
  std::string name;     // "compressed with gzip"
  std::string command;  // that makes it a text; the file's path comes after it
};

// By the bytes that a file begins with: 16 at least, unless it is shorter; none: as far as they show, it is a text as
// it stands. UTF-16 and UTF-32 without a byte order mark are known where half of the characters are ASCII. Pure.
std::optional<OtherForm> other_form(std::string_view beginning);

}  // namespace data
