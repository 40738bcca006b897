// What there is to say of data that was opened.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"

namespace data {

// What was skipped in it, and assumed of it, a short line each; none where there is nothing to say.
std::vector<std::string> data_notes(const Corpus& corpus);

}  // namespace data
