// The ranks' output, one line at a time, each marked with its rank.
//
// Bytes arrive in any pieces; a line is passed on when it is whole, so that lines of different ranks do not mix. A
// carriage return, with which progress bars redraw their line, ends a line too: several ranks cannot redraw one.
// A reader that is slow holds the ranks up, as it would without us, and never the one thread that passes output on.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "files/reading.h"

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

// One of this process's own streams. Nothing here waits for who reads it: what that does not take yet is kept.
class OutputStream {
 public:
  explicit OutputStream(int stream);
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  void add(std::string_view lines);
  // Writes what can be written without waiting. To be called when `descriptor` can be written to.
  void flush();
  int descriptor() const { return descriptor_; }
  bool is_empty() const { return waiting_.empty(); }
  // There is so much that writers have to wait.
  bool is_full() const;
  // It has no reader any more, and the writers must learn that.
  bool is_closed() const { return closed_ && !writers_end_; }
  // From now on writers neither wait nor learn that the reader is gone: they are ending. Excess output is lost.
  void writers_end() { writers_end_ = true; }
  int64_t written_bytes() const { return written_bytes_; }
  // The first error for which output was lost, as errno has it; 0: none was lost, or the reader is gone.
  int error() const { return error_; }

 private:
  enum class Way { Write, Send, WriteWhenReady };

  ssize_t write_some(std::string_view bytes) const;

  files::Descriptor own_;  // the stream, opened again
  int descriptor_;
  Way way_ = Way::WriteWhenReady;
  std::string waiting_;
  bool closed_ = false;
  bool writers_end_ = false;
  int error_ = 0;
  int64_t written_bytes_ = 0;
};

// Writes `text`, and stops if it is not read for a few seconds.
void write_patiently(int stream, std::string_view text);

// A pipe from a rank to one of this process's own streams. Owns the reading end.
class OutputPipe {
 public:
  // Makes the pipe. `target` outlives it.
  OutputPipe(std::string prefix, OutputStream& target);
  ~OutputPipe();
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  void become(int stream);                // in the rank: its own `stream` is this pipe from now on
  void close_writer();                    // in the supervisor, once the rank has it
  int reader() const { return reader_; }  // -1 once it is closed
  bool wants_to_read() const { return reader_ >= 0 && !target_.is_full(); }
  // Passes on available bytes, as long as the target is not full. Closes at the end, or when the target has no reader
  // any more.
  void drain();
  // The bytes in the pipe now are the rest, even if the writing end is still open: closes when they are passed on.
  void expect_no_more();

 private:
  void close_reader();

  LinePrefixer prefixer_;
  OutputStream& target_;
  int reader_ = -1;
  int writer_ = -1;
  std::optional<size_t> rest_;  // still to come; 0: the end
};

}  // namespace fsdp::world
