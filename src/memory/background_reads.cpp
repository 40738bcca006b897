#include "memory/background_reads.h"

#include <fcntl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/rank_thread.h"

namespace fsdp::memory {

namespace {

// After each of these the thread sees whether it was told to stop, or to leave the rest.
constexpr size_t kStepBytes = size_t{1} << 20;

// Sent to where nothing arrives they are read, and not copied. Bytes that cannot be read now are an error for those who
// use them.
void read(const files::Descriptor& file, size_t offset, size_t bytes, const files::Descriptor& nowhere) {
  auto at = static_cast<off_t>(offset);
  while (bytes > 0) {
    const ssize_t count = sendfile(nowhere.number(), file.number(), &at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    bytes -= static_cast<size_t>(count);
  }
}

}  // namespace

BackgroundReads::~BackgroundReads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundReads::add(File file, size_t offset, size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(file), offset, bytes});
  if (!thread_.joinable()) thread_ = std::thread(of_this_rank([this] { run(); }));
  changed_.notify_all();
}

void BackgroundReads::cancel(const File& file, size_t offset, size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::erase_if(queue_, [&](const Range& range) {
    return range.file == file && range.offset < offset + bytes && offset < range.offset + range.bytes;
  });
}

void BackgroundReads::run() {
  const files::Descriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Range& first = queue_.front();
    const Range step{first.file, first.offset, std::min(first.bytes, kStepBytes)};
    first.offset += step.bytes;
    first.bytes -= step.bytes;
    if (first.bytes == 0) queue_.pop_front();
    lock.unlock();
    read(*step.file, step.offset, step.bytes, nowhere);
    lock.lock();
  }
}

}  // namespace fsdp::memory
