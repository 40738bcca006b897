// What the ranks write, one line at a time and each marked with its rank.
//
// Bytes arrive in any pieces; a line is passed on when it is whole, so that lines of different ranks do not mix. A
// carriage return, with which progress bars redraw their line, ends a line too: several ranks cannot redraw one.
#pragma once

#include <string>
#include <string_view>

namespace fsdp::world {

// Adds a prefix to each line.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  // The lines that `bytes` complete.
  std::string feed(std::string_view bytes);
  // The last line, which nothing has ended.
  std::string finish();

 private:
  void end_line(std::string& lines);

  std::string prefix_;
  std::string line_;
  bool after_return_ = false;  // the last byte was a carriage return: a newline now ends the same line
};

// A pipe from a rank to one of this process's own streams. Owns the reading end.
class OutputPipe {
 public:
  // Makes the pipe. `target` is a file descriptor of this process.
  OutputPipe(std::string prefix, int target);
  ~OutputPipe();
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  void become(int stream);                // in the rank: its own `stream` is this pipe from now on
  void close_writer();                    // in the supervisor, once the rank has it
  int reader() const { return reader_; }  // -1 once it is closed
  // Passes on what can be read without waiting, and closes at the end, or when nobody reads `target` any more.
  void drain();
  // Drains, ends the last line, and closes, whoever still holds the writing end.
  void finish();

 private:
  void pass_on(const std::string& lines);
  void close_reader();

  LinePrefixer prefixer_;
  int target_;
  int reader_ = -1;
  int writer_ = -1;
};

}  // namespace fsdp::world
