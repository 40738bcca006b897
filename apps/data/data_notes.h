// Notes on opened data.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"

namespace data {

// Skipped parts and assumptions, a short line each; may be empty.
std::vector<std::string> data_notes(const Corpus& corpus);

}  // namespace data
