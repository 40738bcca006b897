// A call of a World that does not wait.
#pragma once

#include <memory>
#include <utility>

#include "fsdp/movable.h"

namespace fsdp {

namespace world {
class Pending;
}

// One call that was begun. Copies are of the same call. If all are destroyed, the call goes on, with its tensor; its
// error is thrown by a later call. At the end of the World a message that is not over is given up, so wait before.
//
// In shared memory the receiver of a long message reads it where the sender has it, while the receiving thread waits in
// any call of the library, or calls `done`. Where ranks may not read each other's memory, the sending thread has to do
// the same meanwhile.
class Work {
 public:
  // Nothing: it is over.
  Work() = default;

  // Returns when the call is over: the tensor has its result, or may be changed. Throws the call's `Error`, each time.
  // To be called from the thread that calls the World.
  void wait();
  // True if `wait` would return or throw at once.
  bool done() const;

  // For the rest of the library.
  explicit Work(std::shared_ptr<world::Pending> pending) : pending_(std::move(pending)) {}

 private:
  detail::Movable<"Work", std::shared_ptr<world::Pending>> pending_;
};

}  // namespace fsdp
