// What somebody who mistyped a name may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// How many characters have to be inserted, removed, replaced or swapped with their neighbour to get from one text to
// the other: the optimal string alignment distance (Damerau, 1964, "A technique for computer detection and correction
// of spelling errors").
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `names`, the first of several; empty when none is near: more than a third of `word` would be other.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

// The statement as a sentence, with "did you mean ...?" after it where `meant` is not empty.
std::string with_hint(const std::string& statement, const std::string& meant);

}  // namespace trainer
