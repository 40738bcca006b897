#include "files/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace fsdp::files {

namespace {

bool is_closed(int descriptor) { return fcntl(descriptor, F_GETFD) < 0 && errno == EBADF; }

// Without /dev/null (chroot) a descriptor that can be neither read nor written keeps the number.
int open_nothing(int mode) {
  const int nothing = open("/dev/null", mode);
  return nothing >= 0 ? nothing : open("/", O_PATH);
}

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_closed(stream)) continue;
    const int nothing = open_nothing(stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (nothing < 0 || nothing == stream) continue;
    dup2(nothing, stream);
    close(nothing);
  }
}

}  // namespace fsdp::files
