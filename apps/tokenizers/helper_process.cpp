#include "tokenizers/helper_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tokenizers {

namespace {

// As posix_spawn has it: safe where other threads run, as fork is not.
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  void set_files(int standard_input) {
    posix_spawn_file_actions_adddup2(&files_, standard_input, STDIN_FILENO);
    for (int output : {STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(&files_, output, "/dev/null", O_WRONLY, 0);
    }
  }
  // Ctrl-C is for the calling program; the process ends with its caller.
  void block_signals() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&blocked, signal);
    posix_spawnattr_setsigmask(&attributes_, &blocked);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  // Returns the error of errno(3), 0 for none.
  int start(const std::vector<std::string>& command, pid_t& process) {
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    return posix_spawnp(&process, arguments[0], &files_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

#pragma pack(push, 1)
struct Head {
  char kind;
  uint64_t bytes;
};
#pragma pack(pop)

}  // namespace

HelperProcess::HelperProcess(const std::vector<std::string>& command, int most_silence)
    : program_(command.at(0)), most_silence_(most_silence), owner_(getpid()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw fsdp::Error(fmt::format("{} cannot be started: {}", program_, std::strerror(errno)));
  }
  channel_ = fsdp::files::Descriptor(ends[0]);
  const fsdp::files::Descriptor theirs(ends[1]);
  Spawn spawn;
  spawn.set_files(theirs.number());
  spawn.block_signals();
  const int error = spawn.start(command, process_);
  if (error == 0) return;
  process_ = -1;
  throw fsdp::Error(fmt::format("{} cannot be started: {}", program_, std::strerror(error)));
}

HelperProcess::~HelperProcess() {
  if (!is_mine() || process_ < 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

bool HelperProcess::is_mine() const { return owner_ == getpid(); }

std::string HelperProcess::ask(char question, std::string_view payload) {
  const Head head{question, payload.size()};
  send({reinterpret_cast<const char*>(&head), sizeof head});
  send(payload);
  return answer();
}

std::string HelperProcess::answer() {
  Head head{};
  receive(reinterpret_cast<char*>(&head), sizeof head);
  if (head.bytes > kLongestAnswer) {
    throw fsdp::Error(fmt::format("{} answered with {} bytes, expected at most {}", program_,
                                  static_cast<uint64_t>(head.bytes), kLongestAnswer));
  }
  std::string payload(head.bytes, '\0');
  receive(payload.data(), payload.size());
  if (head.kind != 0) throw Refusal{payload};
  return payload;
}

// In slices: the time in which this process was stopped, by Ctrl-Z for one, is not the other's silence.
void HelperProcess::wait_until(short ready) {
  constexpr int kSlice = 1000;  // milliseconds
  for (int slice = 0; slice < most_silence_; ++slice) {
    pollfd channel{channel_.number(), ready, 0};
    if (poll(&channel, 1, kSlice) > 0) return;
  }
  throw fsdp::Error(fmt::format("{} gave no answer for {} seconds", program_, most_silence_));
}

void HelperProcess::send(std::string_view bytes) {
  while (!bytes.empty()) {
    wait_until(POLLOUT);
    const ssize_t count = ::send(channel_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR && errno != EAGAIN) {
      has_ended();
    }
  }
}

void HelperProcess::receive(char* bytes, size_t size) {
  while (size > 0) {
    wait_until(POLLIN);
    const ssize_t count = recv(channel_.number(), bytes, size, MSG_DONTWAIT);
    if (count > 0) {
      bytes += count;
      size -= static_cast<size_t>(count);
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      has_ended();
    }
  }
}

void HelperProcess::has_ended() {
  kill(process_, SIGKILL);  // it has closed its end, and may linger
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
  throw fsdp::Error(WIFSIGNALED(status)
                        ? fmt::format("{} was ended by signal {}", program_, WTERMSIG(status))
                        : fmt::format("{} ended by itself, with exit code {}", program_, WEXITSTATUS(status)));
}

}  // namespace tokenizers
