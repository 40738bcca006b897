#include "training/thread_stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace trainer {

namespace {

namespace fs = std::filesystem;

constexpr int kMostFrames = 128;

// All that the signal's handler may touch. `asked` is the thread that is to answer: one that is late must not answer in
// another's place.
std::array<void*, kMostFrames> frames;
std::atomic<pid_t> asked{0};
std::atomic<int> answered{-1};  // the number of frames

pid_t this_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void give_frames(int) {
  const int error = errno;
  if (asked.load() == this_thread()) answered.store(backtrace(frames.data(), kMostFrames));
  errno = error;
}

int number_of_signal() { return SIGRTMAX - 2; }

// Returns the innermost frames first; empty: no answer.
std::vector<void*> frames_of(pid_t thread) {
  constexpr std::chrono::milliseconds kLook{1};
  constexpr int kLooks = 1000;
  answered.store(-1);
  asked.store(thread);
  if (syscall(SYS_tgkill, getpid(), thread, number_of_signal()) != 0) return {};
  for (int look = 0; look < kLooks && answered.load() < 0; ++look) std::this_thread::sleep_for(kLook);
  asked.store(0);
  const int count = std::max(0, answered.load());
  return std::vector<void*>(frames.begin(), frames.begin() + count);
}

std::string name_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return fmt::format("{}", address);
  const std::string file = info.dli_fname == nullptr ? "?" : fs::path(info.dli_fname).filename().string();
  if (info.dli_sname == nullptr) {
    return fmt::format("{} + {:#x}", file,
                       static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase));
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status),
                                                         std::free);
  return fmt::format("{} ({})", demangled ? demangled.get() : info.dli_sname, file);
}

std::string line_of(const fs::path& file, const std::string& label) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(label)) return line.substr(std::min(line.size(), label.size()));
  }
  return "";
}

std::string text_of(pid_t thread, std::span<void* const> stack) {
  const fs::path folder = fs::path("/proc/self/task") / std::to_string(thread);
  std::string text = fmt::format("thread {} ({}), state {}\n", thread, line_of(folder / "comm", ""),
                                 line_of(folder / "status", "State:\t"));
  if (stack.empty()) return text + "  did not answer\n";
  for (size_t i = 0; i < stack.size(); ++i) text += fmt::format("  #{:<3} {}\n", i, name_of(stack[i]));
  return text;
}

std::vector<pid_t> threads() {
  std::vector<pid_t> all;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc/self/task", gone); !gone && entry != fs::directory_iterator();
       entry.increment(gone)) {
    const std::string name = entry->path().filename().string();
    pid_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    all.push_back(number);
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

std::string stacks_of_all_threads() {
  std::array<void*, 1> first;
  backtrace(first.data(), 1);  // loads what it needs, which a handler could not
  struct sigaction action {};
  action.sa_handler = give_frames;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number_of_signal(), &action, nullptr);  // for good: a thread that answers late would end the process
  std::string text;
  for (const pid_t thread : threads()) {
    if (thread != this_thread()) text += text_of(thread, frames_of(thread)) + "\n";
  }
  return text;
}

}  // namespace trainer
