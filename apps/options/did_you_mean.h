// A suggestion for a mistyped name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// The number of characters to insert, remove, replace or swap with their neighbour to turn one text into the other.
// This is the optimal string alignment distance (Damerau, 1964, "A technique for computer detection and correction of
// spelling errors").
size_t edit_distance(std::string_view a, std::string_view b);

// The name that is nearest to `word` by edit distance, the first of several; empty when none is near: more than a third
// of `word` would be other.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

// The statement as a sentence, with "did you mean ...?" after it where `meant` is not empty.
std::string with_hint(const std::string& statement, const std::string& meant);

}  // namespace trainer
