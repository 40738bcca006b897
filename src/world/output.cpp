#include "world/output.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/patience.h"

namespace fsdp::world {

namespace {

// A longer line is passed on in pieces.
constexpr size_t kMaxLine = 64 << 10;

// Per stream: so much is buffered before the ranks have to wait, and so much is kept of ending ranks.
constexpr size_t kMostWaiting = 64 << 10;
constexpr size_t kMostOfEnding = 1 << 20;
// A rank that writes without end leaves the supervisor time for other things.
constexpr int kReadsAtOnce = 4;
// For who reads, to take the next of it.
constexpr std::chrono::milliseconds kPatience{3000};

// Up to what a pipe takes as a whole, and whole lines if there are: others may write to the stream as well.
std::string_view next_piece(std::string_view bytes) {
  if (bytes.size() <= PIPE_BUF) return bytes;
  bytes = bytes.substr(0, PIPE_BUF);
  const size_t end = bytes.rfind('\n');
  return end == std::string_view::npos ? bytes : bytes.substr(0, end + 1);
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

// That a stream does not wait is a property of what was opened, which other processes have as well, so it is opened
// anew. A regular file never waits for long, and would be written from its beginning.
OutputStream::OutputStream(int stream) : descriptor_(stream) {
  struct stat status {};
  if (fstat(stream, &status) != 0) return;
  if (S_ISSOCK(status.st_mode)) way_ = Way::Send;
  if (S_ISREG(status.st_mode)) way_ = Way::Write;
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return;
  const std::string path = fmt::format("/proc/self/fd/{}", stream);
  own_ = files::Descriptor(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!own_.is_open()) return;
  descriptor_ = own_.number();
  way_ = Way::Write;
}

bool OutputStream::is_full() const { return !writers_end_ && waiting_.size() >= kMostWaiting; }

void OutputStream::add(std::string_view lines) {
  if (closed_ || (writers_end_ && waiting_.size() >= kMostOfEnding)) return;
  waiting_ += lines;
  flush();
}

void OutputStream::flush() {
  size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t written = write_some(next_piece(std::string_view(waiting_).substr(done)));
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      closed_ = errno == EPIPE;
      if (!closed_ && error_ == 0) error_ = errno;
      done = waiting_.size();  // a full disk or a terminal that was hung up ends no job: the output alone is lost
    }
  }
  written_bytes_ += static_cast<int64_t>(done);
  waiting_.erase(0, done);
}

ssize_t OutputStream::write_some(std::string_view bytes) const {
  if (way_ == Way::Send) return send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::WriteWhenReady) {
    pollfd ready{descriptor_, POLLOUT, 0};
    if (poll(&ready, 1, 0) == 0) return errno = EAGAIN, -1;
  }
  return write(descriptor_, bytes.data(), bytes.size());
}

void write_patiently(int stream, std::string_view text) {
  OutputStream target(stream);
  Patience patience(kPatience);
  for (target.add(text); !target.is_empty() && !patience.is_over(); target.flush()) {
    pollfd ready{target.descriptor(), POLLOUT, 0};
    poll(&ready, 1, static_cast<int>(patience.until_next_look().count()));
  }
}

OutputPipe::OutputPipe(std::string prefix, OutputStream& target) : prefixer_(std::move(prefix)), target_(target) {
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

// Without a reader the ranks are told as they would be without this pipe: by SIGPIPE.
void OutputPipe::drain() {
  std::array<char, 16384> bytes;
  for (int reads = 0; reads < kReadsAtOnce && wants_to_read() && !target_.is_closed() && rest_ != 0; ++reads) {
    const ssize_t got = read(reader_, bytes.data(), std::min(bytes.size(), rest_.value_or(bytes.size())));
    if (got > 0) {
      target_.add(prefixer_.feed({bytes.data(), static_cast<size_t>(got)}));
      if (rest_) *rest_ -= static_cast<size_t>(got);
    } else if (got == 0) {
      rest_ = 0;
    } else if (errno != EINTR) {
      break;
    }
  }
  if (reader_ >= 0 && rest_ == 0) target_.add(prefixer_.finish());
  if (target_.is_closed() || rest_ == 0) close_reader();
}

void OutputPipe::expect_no_more() {
  int bytes = 0;
  if (reader_ >= 0 && ioctl(reader_, FIONREAD, &bytes) == 0) rest_ = static_cast<size_t>(bytes);
}

}  // namespace fsdp::world
