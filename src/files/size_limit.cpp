#include "files/size_limit.h"

#include <cerrno>
#include <ctime>

namespace fsdp::files {

SizeLimitIsAnError::SizeLimitIsAnError() {
  sigemptyset(&signal_);
  sigaddset(&signal_, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signal_, &before_);
}

// A signal that came waits for this thread: it is taken before it could be delivered. Keeps errno.
SizeLimitIsAnError::~SizeLimitIsAnError() {
  const int error = errno;
  const bool was_blocked = sigismember(&before_, SIGXFSZ) == 1;
  const timespec now{};
  if (!was_blocked) {
    while (sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace fsdp::files
