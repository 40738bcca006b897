// Text made safe for a page: nothing that a run, a folder or a sample says is read as markup or as a program.
#pragma once

#include <string>
#include <string_view>

namespace trainer {

// For the content of an element and for a quoted attribute. Control characters and what is not UTF-8 become visible
// (files/printable.h).
std::string html(std::string_view text);

// A JSON string, quotes included, that may stand in a script element: without '<', '>' and '&'.
std::string json_string(std::string_view text);

// A JSON number of seven digits, or null where it is not finite.
std::string json_number(double number);

}  // namespace trainer
