#include "files/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

namespace fsdp::files {
namespace {

// Runs `body` in a process in which the streams of `closed`, a bit for each, are closed. Returns its exit code.
int with_closed(int closed, const std::function<int()>& body) {
  const pid_t process = fork();
  if (process == 0) {
    for (int stream : {0, 1, 2})
      if (closed >> stream & 1) close(stream);
    _exit(body());
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_null_device(int stream, int mode) {
  const std::string path = "/proc/self/fd/" + std::to_string(stream);
  return std::filesystem::read_symlink(path) == "/dev/null" && (fcntl(stream, F_GETFL) & O_ACCMODE) == mode;
}

TEST(StandardStreams, AreOpenedWhereTheyAreClosed) {
  for (int closed = 0; closed < 8; ++closed) {
    EXPECT_EQ(with_closed(closed,
                          [closed] {
                            open_standard_streams();
                            for (int stream : {0, 1, 2}) {
                              if ((closed >> stream & 1) == 0) continue;
                              if (!is_null_device(stream, stream == 0 ? O_RDONLY : O_WRONLY)) return 1 + stream;
                              if (fcntl(stream, F_GETFD) != 0) return 4;  // programs that are started have them, too
                            }
                            return open("/dev/zero", O_RDONLY) > 2 ? 0 : 5;
                          }),
              0)
        << "closed: " << closed;
  }
}

TEST(StandardStreams, StayAsTheyAreWhereTheyAreOpen) {
  EXPECT_EQ(with_closed(0,
                        [] {
                          const int file = open("/dev/zero", O_RDONLY);
                          for (int stream : {0, 1, 2}) dup2(file, stream);
                          open_standard_streams();
                          for (int stream : {0, 1, 2})
                            if (is_null_device(stream, O_RDONLY)) return 1;
                          return 0;
                        }),
            0);
}

}  // namespace
}  // namespace fsdp::files
