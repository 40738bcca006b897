// Calls of a program that the layer counts, and at one of them does the planned. For the layer alone.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "support/file_faults_layer.h"

namespace file_faults {

// Absolute, in `into`.
const char* absolute(const char* path, char (&into)[PATH_MAX]);
bool is_watched(const char* path);
int32_t watched_file(int descriptor);  // 0: not watched
void forget(int descriptor);

// By the plan, of the call of this number.
bool fails(const Record& record, int64_t number);
bool kills(int64_t number);

// By a process of its own, whose calls are not watched.
void remove_folder();
void forbid_folder();
[[noreturn]] void die();

// Performs a call that is counted, or does the planned in its place. `perform` is told the number of the call.
template <typename Perform>
long counted(const Record& record, Perform perform) {
  const int64_t number = ++state.shared->calls;
  long result = 0;
  int error = 0;
  {
    const Turn turn;
    if (state.action == Action::RemoveFolder && number == state.at) remove_folder();
    if (state.action == Action::ForbidFolder && number == state.at) forbid_folder();
    const bool failed = fails(record, number);
    if (failed && record.call != Call::Close) {
      result = -1;
      error = state.error;
    } else {
      result = perform(number);
      error = errno;
      if (failed) {  // a descriptor is closed whatever close(2) says
        result = -1;
        error = state.error;
      }
    }
    append_to_log(record, result);
  }
  if (kills(number)) die();
  errno = error;
  return result;
}

template <typename Perform>
int counted_path(Call call, const char* path, const char* other, Perform perform) {
  char whole[PATH_MAX], whole_other[PATH_MAX];
  if (state.shared == nullptr) return static_cast<int>(perform(0));
  Record record{.call = call, .path = absolute(path, whole)};
  if (other != nullptr) record.other = absolute(other, whole_other);
  if (!is_watched(record.path)) return static_cast<int>(perform(0));
  return static_cast<int>(counted(record, perform));
}

template <typename Perform>
int counted_file(Call call, int descriptor, int64_t offset, Perform perform) {
  const int32_t file = watched_file(descriptor);
  if (file == 0) return static_cast<int>(perform(0));
  const Record record{.call = call, .file = file, .offset = offset};
  return static_cast<int>(counted(record, perform));
}

mode_t mode_of(int flags, va_list rest);
int open_counted(const char* path, int flags, mode_t mode);
ssize_t write_counted(int descriptor, const void* bytes, size_t size, off_t offset, bool at_offset);
int rename_counted(int from_directory, const char* from, int to_directory, const char* to, unsigned flags);
int remove_counted(const char* path, int flags);

}  // namespace file_faults
