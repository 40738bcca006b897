// Work in threads that the process waits for before it ends: at exit(), and at the end of a rank's function.
#pragma once

#include <functional>
#include <string>

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

// Called when all work has ended: a sentence for standard error, about an unreported failure; empty: none.
void tell_at_process_end(std::function<std::string()> text);

// For a process that ends otherwise than by exit().
void wait_for_unfinished_work();

}  // namespace fsdp
