// A limit on the size of files (ulimit -f) as an error.
#pragma once

#include <csignal>

namespace fsdp::files {

// While this lives, a write of this thread beyond the limit fails with EFBIG, and does not end the process by SIGXFSZ.
class SizeLimitIsAnError {
 public:
  SizeLimitIsAnError();
  ~SizeLimitIsAnError();
  SizeLimitIsAnError(const SizeLimitIsAnError&) = delete;
  SizeLimitIsAnError& operator=(const SizeLimitIsAnError&) = delete;

 private:
  sigset_t signal_{}, before_{};
};

}  // namespace fsdp::files
