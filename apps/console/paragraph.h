// Text in lines, to the right of its name.
#pragma once

#include <cstddef>
#include <string>

namespace trainer {

// `left` after two spaces, then `text` from column `indent` on, in as many lines as `width` columns ask for; a longer
// word has a line to itself. Each line ends with a newline.
std::string paragraph(const std::string& left, const std::string& text, size_t indent, size_t width);

}  // namespace trainer
