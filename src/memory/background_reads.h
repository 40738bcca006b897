// A thread that reads parts of files into the system's page cache before they are used.
//
// The system calls for that (posix_fadvise, madvise) read single pages. Every page costs its own fault when it is
// written, and one more entry in each list of the system. The system keeps sequential reads in large pieces.
//
// The thread starts with the first request and ends with this. Any thread may call.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "files/reading.h"

namespace fsdp::memory {

class BackgroundReads {
 public:
  using File = std::shared_ptr<const files::Descriptor>;

  BackgroundReads() = default;
  ~BackgroundReads();
  BackgroundReads(const BackgroundReads&) = delete;
  BackgroundReads& operator=(const BackgroundReads&) = delete;

  // These bytes will be used soon. They are read after earlier requests.
  void add(File file, size_t offset, size_t bytes);
  // Requests for any of these bytes are of no use any more.
  void cancel(const File& file, size_t offset, size_t bytes);

 private:
  struct Range {
    File file;
    size_t offset, bytes;
  };

  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  std::deque<Range> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fsdp::memory
