// Work that goes on in threads of this process, which ends after it: by exit(), and as a rank that was forked.
#pragma once

namespace fsdp {

// While one lives, its process does not end: made before the work's thread starts, and destroyed as its last act. Any
// thread.
class UnfinishedWork {
 public:
  UnfinishedWork();
  ~UnfinishedWork();
  UnfinishedWork(const UnfinishedWork&) = delete;
  UnfinishedWork& operator=(const UnfinishedWork&) = delete;
};

// For a process that ends otherwise than by exit().
void wait_for_unfinished_work();

}  // namespace fsdp
