#include "world/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace fsdp::world {

namespace {

// A longer line is passed on in pieces.
constexpr size_t kMaxLine = 64 << 10;

// False when nobody reads `fd` any more.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void close_once(int& fd) {
  if (fd >= 0) close(std::exchange(fd, -1));
}

}  // namespace

void LinePrefixer::end_line(std::string& lines) {
  lines += prefix_ + line_ + "\n";
  line_.clear();
}

std::string LinePrefixer::feed(std::string_view bytes) {
  std::string lines;
  for (char c : bytes) {
    // A bar may return before it draws: that is no empty line.
    bool ends = c == '\n' ? !after_return_ : c == '\r' ? !line_.empty() : false;
    bool ended_by_return = c == '\r' && (ends || after_return_);
    if (c != '\n' && c != '\r') line_ += c;
    if (ends || line_.size() >= kMaxLine) end_line(lines);
    after_return_ = ended_by_return;
  }
  return lines;
}

std::string LinePrefixer::finish() {
  std::string lines;
  if (!line_.empty()) end_line(lines);
  return lines;
}

OutputPipe::OutputPipe(std::string prefix, int target) : prefixer_(std::move(prefix)), target_(target) {
  int ends[2];
  FSDP_CHECK(pipe2(ends, O_CLOEXEC) == 0,
             "a pipe for a rank's output cannot be made: {}. Raise the limit of open files "
             "(ulimit -n).",
             std::strerror(errno));
  reader_ = ends[0];
  writer_ = ends[1];
  fcntl(reader_, F_SETFL, O_NONBLOCK);
}

OutputPipe::~OutputPipe() {
  close_reader();
  close_writer();
}

void OutputPipe::become(int stream) { dup2(writer_, stream); }
void OutputPipe::close_writer() { close_once(writer_); }
void OutputPipe::close_reader() { close_once(reader_); }

void OutputPipe::drain() {
  std::array<char, 16384> bytes;
  while (reader_ >= 0) {
    ssize_t got = read(reader_, bytes.data(), bytes.size());
    if (got > 0) {
      pass_on(prefixer_.feed({bytes.data(), static_cast<size_t>(got)}));
    } else if (got == 0) {
      pass_on(prefixer_.finish());
      close_reader();
    } else if (errno != EINTR) {
      return;
    }
  }
}

void OutputPipe::finish() {
  drain();
  if (reader_ >= 0) pass_on(prefixer_.finish());
  close_reader();
}

// Without a reader the ranks are to be told as they would be without this pipe: by SIGPIPE.
void OutputPipe::pass_on(const std::string& lines) {
  if (!write_all(target_, lines)) close_reader();
}

}  // namespace fsdp::world
