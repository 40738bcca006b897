#include "support/file_faults_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace file_faults {

namespace {

bool needs_room(const Record& record) {
  switch (record.call) {
    case Call::Open:
      return (record.offset & O_CREAT) != 0 && syscall(SYS_faccessat, AT_FDCWD, record.path, F_OK) != 0;
    case Call::Write:
    case Call::Truncate:
    case Call::MakeDirectory:
      return true;
    default:
      return false;
  }
}

}  // namespace

const char* absolute(const char* path, char (&into)[PATH_MAX]) {
  if (path[0] == '/') return path;
  if (getcwd(into, sizeof into) == nullptr) return path;
  const size_t size = std::strlen(into);
  std::snprintf(into + size, sizeof into - size, "/%s", path);
  return into;
}

bool is_watched(const char* path) {
  if (state.shared == nullptr || std::strncmp(path, state.folder.data(), state.folder_size) != 0) return false;
  const char next = path[state.folder_size];
  return (next == '\0' || next == '/') && std::strstr(path + state.folder_size, state.part.data()) != nullptr;
}

int32_t watched_file(int descriptor) {
  if (state.shared == nullptr || descriptor < 0 || descriptor >= kMostDescriptors) return 0;
  return state.file_of[static_cast<size_t>(descriptor)];
}

void forget(int descriptor) {
  if (descriptor >= 0 && descriptor < kMostDescriptors) state.file_of[static_cast<size_t>(descriptor)] = 0;
}

bool fails(const Record& record, int64_t number) {
  switch (state.action) {
    case Action::Fail:
      return number == state.at;
    case Action::FailFromHere:
      return number >= state.at;
    case Action::FillFromHere:
      return number >= state.at && needs_room(record);
    default:
      return false;
  }
}

void remove_folder() {
  const pid_t child = fork();
  if (child == 0) {
    char command[] = "/bin/rm", option[] = "-rf";
    char* const arguments[] = {command, option, state.folder.data(), nullptr};
    char* const no_variables[] = {nullptr};
    execve(command, arguments, no_variables);
    _exit(1);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void forbid_folder() { syscall(SYS_fchmodat, AT_FDCWD, state.folder.data(), 0500); }

[[noreturn]] void die() {
  const bool all = state.action == Action::KillGroup;
  syscall(SYS_kill, all ? 0 : getpid(), SIGKILL);
  for (;;) pause();
}

bool kills(int64_t number) {
  return number == state.at && (state.action == Action::KillProcess || state.action == Action::KillGroup);
}

int open_counted(const char* path, int flags, mode_t mode) {
  const auto open_it = [&](int64_t) { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  char whole[PATH_MAX];
  const char* place = state.shared == nullptr ? path : absolute(path, whole);
  if (!is_watched(place)) return static_cast<int>(open_it(0));
  const Record record{.call = Call::Open, .file = ++state.shared->files, .offset = flags, .path = place};
  const long descriptor = counted(record, open_it);
  if (descriptor >= 0 && descriptor < kMostDescriptors) state.file_of[static_cast<size_t>(descriptor)] = record.file;
  return static_cast<int>(descriptor);
}

mode_t mode_of(int flags, va_list rest) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(rest, mode_t) : 0;
}

ssize_t write_counted(int descriptor, const void* bytes, size_t size, off_t offset, bool at_offset) {
  const auto write_it = [&](size_t count) {
    return at_offset ? syscall(SYS_pwrite64, descriptor, bytes, count, offset)
                     : syscall(SYS_write, descriptor, bytes, count);
  };
  const int32_t file = watched_file(descriptor);
  if (file == 0) return write_it(size);
  if (!at_offset) offset = syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
  const Record record{.call = Call::Write, .file = file, .offset = offset, .bytes = static_cast<const char*>(bytes)};
  return counted(record, [&](int64_t number) {
    const bool half = state.action == Action::WriteHalf && number == state.at && size > 1;
    return write_it(half ? size / 2 : size);
  });
}

int rename_counted(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  const auto rename_it = [&](int64_t) -> long {
    if (flags == RENAME_EXCHANGE && state.has_no_exchange) {
      errno = EINVAL;
      return -1;
    }
    return syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
  };
  return counted_path(flags == RENAME_EXCHANGE ? Call::Exchange : Call::Rename, from, to, rename_it);
}

int remove_counted(const char* path, int flags) {
  return counted_path(flags == AT_REMOVEDIR ? Call::RemoveDirectory : Call::Remove, path, nullptr,
                      [&](int64_t) { return syscall(SYS_unlinkat, AT_FDCWD, path, flags); });
}

}  // namespace file_faults
