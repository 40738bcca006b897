// Words of other trainers for options, values and commands of this one, so that who comes from there is told ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Our flag, or flag and value, for another trainer's flag (Hugging Face's Trainer, nanoGPT, DeepSpeed, torchrun and
// their like), with dashes before it or without, and with _ or - in it; empty: none is known.
std::string flag_meant(std::string_view flag);

// The same for the other trainers' word that is spelled most like `flag`; empty: none is near.
std::string flag_meant_by_spelling(std::string_view flag);

// The allowed value that another trainer calls `value`, or the nearest by spelling; empty: none.
std::string value_meant(std::string_view value, const std::vector<const char*>& allowed);

// The options that do what another trainer's command `word` does: "--eval-only --run" for eval. A path follows them.
// Empty: none do.
std::string options_meant(std::string_view word);

// Our command for another one's word, or the nearest by spelling; empty: none.
std::string command_meant(std::string_view word);

}  // namespace trainer
