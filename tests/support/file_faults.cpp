#include "support/file_faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace file_faults {

namespace {

// The count of all processes of a job together.
struct Shared {
  std::atomic<int64_t> calls;
  std::atomic<int32_t> files;
  std::atomic<int32_t> writer;  // whose turn it is to append to the log; 0: nobody's
};

// The layer is called before anything of the program is constructed: this is there from the beginning.
struct Settings {
  std::array<char, PATH_MAX> folder;
  size_t folder_size;
  Action action;
  int64_t at;
  int error;
  bool has_no_exchange;
  int log;         // its descriptor; 0: none
  Shared* shared;  // null: not armed
};
Settings settings;

constexpr int kMostDescriptors = 4096;
std::array<std::atomic<int32_t>, kMostDescriptors> file_of;  // 0: not watched

// Absolute, in `into`.
const char* absolute(const char* path, char (&into)[PATH_MAX]) {
  if (path[0] == '/') return path;
  if (getcwd(into, sizeof into) == nullptr) return path;
  const size_t size = std::strlen(into);
  std::snprintf(into + size, sizeof into - size, "/%s", path);
  return into;
}

bool is_watched(const char* path) {
  if (settings.shared == nullptr || std::strncmp(path, settings.folder.data(), settings.folder_size) != 0) return false;
  const char next = path[settings.folder_size];
  return next == '\0' || next == '/';
}

int32_t watched_file(int descriptor) {
  if (settings.shared == nullptr || descriptor < 0 || descriptor >= kMostDescriptors) return 0;
  return file_of[static_cast<size_t>(descriptor)];
}

struct Record {
  Call call;
  int32_t file = 0;
  int64_t offset = 0;
  const char* path = "";
  const char* other = "";
  const char* bytes = nullptr;
};

struct Head {
  int32_t call, file, succeeded, path_size, other_size;
  int64_t offset, size;
};

// One writer at a time, so that the order of the log is that of the calls. A writer that dies ends its job.
class Turn {
 public:
  Turn() {
    if (settings.log == 0) return;
    const int32_t own = static_cast<int32_t>(syscall(SYS_gettid));
    for (int32_t nobody = 0; !settings.shared->writer.compare_exchange_weak(nobody, own); nobody = 0) sched_yield();
  }
  ~Turn() {
    if (settings.log != 0) settings.shared->writer = 0;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

void append_to_log(const Record& record, long result) {
  if (settings.log == 0) return;
  const Head head{.call = static_cast<int32_t>(record.call),
                  .file = record.file,
                  .succeeded = result >= 0,
                  .path_size = static_cast<int32_t>(std::strlen(record.path)),
                  .other_size = static_cast<int32_t>(std::strlen(record.other)),
                  .offset = record.offset,
                  .size = record.bytes != nullptr && result > 0 ? result : 0};
  const iovec parts[] = {{const_cast<Head*>(&head), sizeof head},
                         {const_cast<char*>(record.path), static_cast<size_t>(head.path_size)},
                         {const_cast<char*>(record.other), static_cast<size_t>(head.other_size)},
                         {const_cast<char*>(record.bytes), static_cast<size_t>(head.size)}};
  if (syscall(SYS_writev, settings.log, parts, 4) < 0) std::abort();
}

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

bool fails(const Record& record, int64_t number) {
  switch (settings.action) {
    case Action::Fail:
      return number == settings.at;
    case Action::FailFromHere:
      return number >= settings.at;
    case Action::FillFromHere:
      return number >= settings.at && needs_room(record);
    default:
      return false;
  }
}

// By a process of its own, whose calls are not watched.
void remove_folder() {
  const pid_t child = fork();
  if (child == 0) {
    char command[] = "/bin/rm", option[] = "-rf";
    char* const arguments[] = {command, option, settings.folder.data(), nullptr};
    char* const no_variables[] = {nullptr};
    execve(command, arguments, no_variables);
    _exit(1);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void die() {
  const bool all = settings.action == Action::KillGroup;
  syscall(SYS_kill, all ? 0 : getpid(), SIGKILL);
  for (;;) pause();
}

bool kills(int64_t number) {
  return number == settings.at && (settings.action == Action::KillProcess || settings.action == Action::KillGroup);
}

// Performs a call that is counted, or does the planned in its place. `perform` is told the number of the call.
template <typename Perform>
long counted(const Record& record, Perform perform) {
  const int64_t number = ++settings.shared->calls;
  long result = 0;
  int error = 0;
  {
    const Turn turn;
    if (settings.action == Action::RemoveFolder && number == settings.at) remove_folder();
    const bool failed = fails(record, number);
    if (failed && record.call != Call::Close) {
      result = -1;
      error = settings.error;
    } else {
      result = perform(number);
      error = errno;
      if (failed) {  // a descriptor is closed whatever close(2) says
        result = -1;
        error = settings.error;
      }
    }
    append_to_log(record, result);
  }
  if (kills(number)) die();
  errno = error;
  return result;
}

int open_counted(const char* path, int flags, mode_t mode) {
  const auto open_it = [&](int64_t) { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  char whole[PATH_MAX];
  const char* place = settings.shared == nullptr ? path : absolute(path, whole);
  if (!is_watched(place)) return static_cast<int>(open_it(0));
  const Record record{.call = Call::Open, .file = ++settings.shared->files, .offset = flags, .path = place};
  const long descriptor = counted(record, open_it);
  if (descriptor >= 0 && descriptor < kMostDescriptors) file_of[static_cast<size_t>(descriptor)] = record.file;
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
    const bool half = settings.action == Action::WriteHalf && number == settings.at && size > 1;
    return write_it(half ? size / 2 : size);
  });
}

template <typename Perform>
int counted_path(Call call, const char* path, const char* other, Perform perform) {
  char whole[PATH_MAX], whole_other[PATH_MAX];
  if (settings.shared == nullptr) return static_cast<int>(perform(0));
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

int rename_counted(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  const auto rename_it = [&](int64_t) -> long {
    if (flags == RENAME_EXCHANGE && settings.has_no_exchange) {
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

template <size_t N>
size_t copy(std::string_view text, std::array<char, N>& into) {
  if (text.size() >= N) std::abort();
  text.copy(into.data(), text.size());
  into[text.size()] = '\0';
  return text.size();
}

Shared* make_shared() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<Shared*>(memory);  // zeros are its beginning
}

void disarm() {
  if (settings.log > 0) syscall(SYS_close, settings.log);
  if (settings.shared != nullptr) munmap(settings.shared, sizeof(Shared));
  settings.log = 0;
  settings.shared = nullptr;
  for (auto& file : file_of) file = 0;
}

// Of "action=2\nfolder=/tmp/run\n".
Plan plan_of(const std::string& text) {
  Plan plan;
  for (size_t begin = 0; begin < text.size();) {
    const size_t equals = text.find('=', begin), end = text.find('\n', equals);
    const std::string name = text.substr(begin, equals - begin), value = text.substr(equals + 1, end - equals - 1);
    if (name == "folder") plan.folder = value;
    if (name == "log") plan.log = value;
    if (name == "action") plan.action = static_cast<Action>(std::stoi(value));
    if (name == "at") plan.at = std::stoll(value);
    if (name == "error") plan.error = std::stoi(value);
    if (name == "exchanges_names") plan.exchanges_names = value == "1";
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return plan;
}

__attribute__((constructor)) void arm_by_environment() {
  if (const char* text = std::getenv("FSDP_FILE_FAULTS")) arm(plan_of(text));
}

}  // namespace

const char* name_of(Call call) {
  constexpr const char* kNames[] = {"open",           "write",  "truncate", "sync",   "close",
                                    "make directory", "rename", "exchange", "remove", "remove directory",
                                    "mode",           "lock",   "mark"};
  return kNames[static_cast<int>(call)];
}

void arm(const Plan& plan) {
  disarm();
  settings.folder_size = copy(plan.folder, settings.folder);
  settings.action = plan.action;
  settings.at = plan.at;
  settings.error = plan.error;
  settings.has_no_exchange = !plan.exchanges_names;
  if (!plan.log.empty()) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    settings.log = static_cast<int>(syscall(SYS_openat, AT_FDCWD, plan.log.c_str(), kFlags, 0600));
    if (settings.log < 0) std::abort();
  }
  if (!plan.folder.empty()) settings.shared = make_shared();
}

void mark() {
  if (settings.shared == nullptr) return;
  const Turn turn;
  append_to_log({.call = Call::Mark}, 0);
}

std::vector<Logged> read_log(const std::string& file) {
  std::vector<Logged> all;
  std::FILE* log = std::fopen(file.c_str(), "rb");
  if (log == nullptr) return all;
  const auto text = [log](int64_t size) {
    std::string bytes(static_cast<size_t>(size), '\0');
    if (std::fread(bytes.data(), 1, bytes.size(), log) != bytes.size()) std::abort();
    return bytes;
  };
  for (Head head; std::fread(&head, sizeof head, 1, log) == 1;) {
    Logged& one = all.emplace_back();
    one.call = static_cast<Call>(head.call);
    one.file = head.file;
    one.offset = head.offset;
    one.succeeded = head.succeeded != 0;
    one.path = text(head.path_size);
    one.other = text(head.other_size);
    one.bytes = text(head.size);
  }
  std::fclose(log);
  return all;
}

}  // namespace file_faults

// In place of the C library's.
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
    if (descriptor >= 0 && descriptor < file_faults::kMostDescriptors) {
      file_faults::file_of[static_cast<size_t>(descriptor)] = 0;
    }
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
