// A command line as a person types it.
#pragma once

#include <string>
#include <vector>

namespace trainer {

// Words as a shell takes them: those with other than plain characters are quoted.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace trainer
