// How a line looks on a terminal.
#pragma once

#include <string>

// Columns of a line of UTF-8 whose characters are one column each, colours not counted.
inline int columns(const std::string& line) {
  int count = 0;
  bool escaped = false;
  for (char byte : line) {
    if (byte == '\033') escaped = true;
    if (!escaped && (byte & 0xc0) != 0x80) ++count;
    if (escaped && byte == 'm') escaped = false;
  }
  return count;
}

inline bool has_control_characters(const std::string& text) {
  for (char byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20 && byte != '\n' && byte != '\t') return true;
  }
  return false;
}
