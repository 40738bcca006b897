// The C library's functions, in another form: they tell the layer of each call, which performs it or does the planned.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "support/file_faults_calls.h"

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = file_faults::mode_of(flags, rest);
  va_end(rest);
  return file_faults::open_counted(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = file_faults::mode_of(flags, rest);
  va_end(rest);
  return file_faults::open_counted(path, flags, mode);
}

int creat(const char* path, mode_t mode) { return file_faults::open_counted(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

ssize_t write(int descriptor, const void* bytes, size_t size) {
  return file_faults::write_counted(descriptor, bytes, size, 0, /*at_offset=*/false);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  return file_faults::write_counted(descriptor, bytes, size, offset, /*at_offset=*/true);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t offset) {
  return file_faults::write_counted(descriptor, bytes, size, offset, /*at_offset=*/true);
}

int ftruncate(int descriptor, off_t size) noexcept {
  return file_faults::counted_file(file_faults::Call::Truncate, descriptor, size,
                                   [&](int64_t) { return syscall(SYS_ftruncate, descriptor, size); });
}

int ftruncate64(int descriptor, off64_t size) noexcept {
  return file_faults::counted_file(file_faults::Call::Truncate, descriptor, size,
                                   [&](int64_t) { return syscall(SYS_ftruncate, descriptor, size); });
}

// No power is lost here but in a model of the disk: nothing waits for the real one, which would take most of the time.
int fsync(int descriptor) {
  return file_faults::counted_file(file_faults::Call::Sync, descriptor, 0, [&](int64_t) -> long {
    return syscall(SYS_fcntl, descriptor, F_GETFD) < 0 ? -1 : 0;  // an error for what is not open
  });
}

int fdatasync(int descriptor) { return fsync(descriptor); }

int close(int descriptor) {
  const auto close_it = [&](int64_t) {
    file_faults::forget(descriptor);
    return syscall(SYS_close, descriptor);
  };
  return file_faults::counted_file(file_faults::Call::Close, descriptor, 0, close_it);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return file_faults::counted_path(file_faults::Call::MakeDirectory, path, nullptr,
                                   [&](int64_t) { return syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}

char* mkdtemp(char* pattern) noexcept {
  static const auto own = reinterpret_cast<char* (*)(char*)>(dlsym(RTLD_NEXT, "mkdtemp"));
  return file_faults::counted_path(file_faults::Call::MakeDirectory, pattern, nullptr,
                                   [&](int64_t) { return own(pattern) == nullptr ? -1L : 0L; }) < 0
             ? nullptr
             : pattern;
}

int chmod(const char* path, mode_t mode) noexcept {
  return file_faults::counted_path(file_faults::Call::Mode, path, nullptr,
                                   [&](int64_t) { return syscall(SYS_fchmodat, AT_FDCWD, path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  return file_faults::rename_counted(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned int flags) noexcept {
  return file_faults::rename_counted(from_directory, from, to_directory, to, flags);
}

int unlink(const char* path) noexcept { return file_faults::remove_counted(path, 0); }

int rmdir(const char* path) noexcept { return file_faults::remove_counted(path, AT_REMOVEDIR); }

int remove(const char* path) noexcept {
  struct stat status {};
  const bool is_directory = lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return file_faults::remove_counted(path, is_directory ? AT_REMOVEDIR : 0);
}

int flock(int descriptor, int operation) noexcept {
  return file_faults::counted_file(file_faults::Call::Lock, descriptor, 0,
                                   [&](int64_t) { return syscall(SYS_flock, descriptor, operation); });
}

}  // extern "C"
