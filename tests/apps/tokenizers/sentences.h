// Text to train tokenizers on.
#pragma once

#include <string>
#include <string_view>

#include "tokenizers/sentencepiece.h"

// Lines with enough words for some hundred tokens; the same each time.
inline std::string some_text(int lines) {
  constexpr const char* kWords[] = {"the",         "word",         "river", "mountain", "was",     "is",      "a",
                                    "house",       "green",        "blue",  "runs",     "over",    "under",   "tree",
                                    "light",       "dark",         "stone", "water",    "singing", "morning", "evening",
                                    "caf\xc3\xa9", "na\xc3\xafve", "and",   "of",       "to"};
  constexpr size_t kCount = sizeof kWords / sizeof *kWords;
  std::string text;
  uint32_t state = 1;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 8; ++word) {
      state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
      text += std::string(word == 0 ? "" : " ") + kWords[(state >> 16) % kCount];
    }
    text += ", number " + std::to_string(line) + ".\n";
  }
  return text;
}

// The lines of a text, one after the other.
inline tokenizers::NextSentence lines_of(std::string_view text) {
  return [text]() mutable -> std::optional<std::string_view> {
    if (text.empty()) return std::nullopt;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
}
