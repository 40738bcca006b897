// The lines of a file that a stranger may have made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "files/reading.h"

namespace trainer {

inline constexpr size_t kLongestLine = size_t{1} << 16;  // in bytes; no record comes near it

// Goes through a regular file as it was when it was opened. A line longer than kLongestLine is passed over without
// being held. One thread at a time.
class LineReader {
 public:
  // Throws fsdp::Error for what is no regular file, and so does `next` for one that becomes shorter.
  explicit LineReader(const std::filesystem::path& path);

  bool next();  // false: there is none
  // About the line:
  const std::string& text() const { return text_; }  // without its end; empty where it is too long
  bool is_too_long() const { return is_too_long_; }
  bool has_end() const { return has_end_; }
  int64_t number() const { return number_; }  // from 1
  int64_t end() const { return at_; }         // the byte behind it

 private:
  bool fill();

  std::string name_;
  fsdp::files::OpenFile file_;
  std::string text_, buffer_;
  size_t used_ = 0;  // of the buffer
  int64_t read_ = 0, at_ = 0, number_ = 0;
  bool is_too_long_ = false, has_end_ = false;
};

}  // namespace trainer
