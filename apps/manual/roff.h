// Text in roff, the language of manual pages (groff(7), groff_man(7)).
#pragma once

#include <string>

namespace trainer {

// As it stands: no sign of it is read as one of roff's, a dash stays a dash and no typesetter's hyphen. No newlines.
std::string roff_text(const std::string& text);
std::string roff_bold(const std::string& text);
std::string roff_italic(const std::string& text);

// `.TP` with `tag`, in roff already, and `text`, in plain letters, beside it.
std::string roff_item(const std::string& tag, const std::string& text);

// Lines that keep their breaks, indented.
std::string roff_lines(const std::string& lines);

}  // namespace trainer
