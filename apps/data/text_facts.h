// Peculiarities of a text: entries of its folder that were skipped, and files that are not as most are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace data {

// How many there are, and which is the first, in a form that may be shown.
struct Seen {
  int64_t count = 0;
  std::string example = {};

  void add(const std::string& name) {
    if (count++ == 0) example = name;
  }
  bool operator==(const Seen&) const = default;
};

struct TextFacts {
  Seen hidden = {};                             // files and folders whose names begin with a dot; skipped
  Seen binary = {};                             // files with a NUL byte in their first 8 KiB, or compressed; skipped
  Seen empty = {};                              // files; skipped
  Seen crlf = {};                               // files whose first line ends with CR LF
  std::optional<Seen> not_utf8 = std::nullopt;  // files; none: not all of the text has been read
};

// The facts of two texts together.
TextFacts together(const TextFacts& one, const TextFacts& other);

// Skipped files, a line each; may be empty.
std::vector<std::string> skipped_lines(const TextFacts& facts);

// All that there is to say. `keeps_bytes`: the tokens hold bytes that are no UTF-8; otherwise each became U+FFFD.
std::vector<std::string> fact_lines(const TextFacts& facts, bool keeps_bytes);

}  // namespace data
