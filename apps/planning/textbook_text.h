// The textbook as text, and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "planning/textbook.h"

namespace trainer {

// Lines of at most `width` columns, which is 60 or more; ended by a newline.
std::string textbook_text(const std::vector<TextbookTopic>& topics, size_t width = 80);

// One object: `topics`, each with `title`, `setting` and `rows`; these have the members of TextbookRow. kNoDevice is
// null.
std::string textbook_json(const std::vector<TextbookTopic>& topics);

// "120", "31.4", "40,409", "0.006"; "none" for kNoDevice. At most `digits` digits, and all of a whole number.
std::string figure_text(double figure, int digits);

}  // namespace trainer
