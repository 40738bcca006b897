// Facts on a page, as a card.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainer {

// Names and values, as text. A fact without a value is left out.
using Facts = std::vector<std::pair<const char*, std::string>>;

// HTML. `heading` is HTML, and may be empty. `command` is a command line, with a button that copies it; empty: there is
// none. Empty where there is nothing to show.
std::string facts_card(const Facts& facts, const std::string& command, const std::string& heading = "");

// HTML: each word in an element of its own, so that no line ends within one.
std::string html_words(const std::string& text);

}  // namespace trainer
