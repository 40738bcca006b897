#include "files/wrapped.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iostream>

#include "files/printable.h"

namespace fsdp::files {

namespace {

constexpr size_t kIndent = 2;  // of the second line, beside the first
// Lines of more than 120 columns are hard to read. Words of fewer than 20 would be one a line.
constexpr size_t kLeastWidth = 20, kMostWidth = 120, kUnknownWidth = 80;

size_t columns(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

// One past its full stop; the length of `line` where there is one sentence.
size_t end_of_first_sentence(std::string_view line) {
  for (size_t i = 0; i + 2 < line.size(); ++i) {
    const bool ends = line[i] == '.' || line[i] == '?' || line[i] == '!';
    if (ends && line[i + 1] == ' ' && std::isupper(static_cast<unsigned char>(line[i + 2])) != 0) return i + 1;
  }
  return line.size();
}

// Fills lines of one message.
class Filler {
 public:
  Filler(size_t width, size_t indent, std::string& result) : width_(width), indent_(indent), result_(result) {}

  void begin_line() {
    result_ += "\n" + std::string(indent_, ' ');
    column_ = indent_;
  }
  // The blanks between two words are kept, but for those at which a line is broken.
  void add(std::string_view text) {
    while (!text.empty()) {
      const size_t blanks = std::min(text.find_first_not_of(' '), text.size());
      const std::string_view word = text.substr(blanks, text.find(' ', blanks) - blanks);
      if (column_ > indent_ && column_ + blanks + columns(word) > width_) {
        begin_line();
      } else {
        result_.append(blanks, ' ');
        column_ += blanks;
      }
      result_ += word;
      column_ += columns(word);
      text.remove_prefix(blanks + word.size());
    }
  }

 private:
  size_t width_, indent_;
  std::string& result_;
  size_t column_ = 0;
};

void append_wrapped(std::string_view line, size_t width, std::string& result) {
  if (columns(line) <= width) {
    result += line;
    return;
  }
  const size_t first_word = std::min(line.find_first_not_of(' '), line.size());
  Filler filler(width, first_word + kIndent, result);
  const size_t end = end_of_first_sentence(line);
  filler.add(line.substr(0, end));
  if (end == line.size()) return;
  filler.begin_line();
  filler.add(line.substr(end + 1));
}

size_t width_of(int stream) {
  winsize size{};
  if (ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return std::clamp<size_t>(size.ws_col, kLeastWidth, kMostWidth);
}

}  // namespace

std::string wrapped(std::string_view text, size_t width) {
  std::string result;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    append_wrapped(text.substr(0, end), width, result);
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string shown_on(int stream, std::string_view text) {
  const std::string harmless = printable_lines(text);
  return isatty(stream) == 1 ? wrapped(harmless, width_of(stream)) : harmless;
}

void show_error(std::string_view text) { std::cerr << shown_on(STDERR_FILENO, text) << std::flush; }

}  // namespace fsdp::files
