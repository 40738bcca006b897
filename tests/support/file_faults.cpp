// The layer as a test sees it: its plan, and its log.
#include "support/file_faults.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "support/file_faults_layer.h"

namespace file_faults {

constinit State state;

namespace {

struct Head {
  int32_t call, file, succeeded, path_size, other_size;
  int64_t offset, size;
};

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
  if (state.log > 0) syscall(SYS_close, state.log);
  if (state.shared != nullptr) munmap(state.shared, sizeof(Shared));
  state.log = 0;
  state.shared = nullptr;
  for (auto& file : state.file_of) file = 0;
}

// Of "action=2\nfolder=/tmp/run\n".
Plan plan_of(const std::string& text) {
  Plan plan;
  for (size_t begin = 0; begin < text.size();) {
    const size_t equals = text.find('=', begin), end = text.find('\n', equals);
    const std::string name = text.substr(begin, equals - begin), value = text.substr(equals + 1, end - equals - 1);
    if (name == "folder") plan.folder = value;
    if (name == "part") plan.part = value;
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

Turn::Turn() {
  if (state.log == 0) return;
  const int32_t own = static_cast<int32_t>(syscall(SYS_gettid));
  for (int32_t nobody = 0; !state.shared->writer.compare_exchange_weak(nobody, own); nobody = 0) sched_yield();
}

Turn::~Turn() {
  if (state.log != 0) state.shared->writer = 0;
}

void append_to_log(const Record& record, long result) {
  if (state.log == 0) return;
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
  if (syscall(SYS_writev, state.log, parts, 4) < 0) std::abort();
}

const char* name_of(Call call) {
  constexpr const char* kNames[] = {"open",           "write",  "truncate", "sync",   "close",
                                    "make directory", "rename", "exchange", "remove", "remove directory",
                                    "mode",           "lock",   "mark"};
  return kNames[static_cast<int>(call)];
}

void arm(const Plan& plan) {
  disarm();
  state.folder_size = copy(plan.folder, state.folder);
  copy(plan.part, state.part);
  state.action = plan.action;
  state.at = plan.at;
  state.error = plan.error;
  state.has_no_exchange = !plan.exchanges_names;
  if (!plan.log.empty()) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    state.log = static_cast<int>(syscall(SYS_openat, AT_FDCWD, plan.log.c_str(), kFlags, 0600));
    if (state.log < 0) std::abort();
  }
  if (!plan.folder.empty()) state.shared = make_shared();
}

void mark() {
  if (state.shared == nullptr) return;
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
