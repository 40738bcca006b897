#include "support/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

namespace fsdp::testing {

namespace {

constexpr char kServer[] = "FSDP_TEST_FORK_SERVER";  // set in the server
constexpr int kSocket = 3;                           // the server's, of its requests
constexpr size_t kLongestRequest = 128 << 10;

// A request: all texts, each with a zero at its end, and an empty one between arguments and variables. With it come the
// descriptors of the output and of a pipe for the status.
struct Request {
  std::string texts;
  std::array<int, 2> descriptors{-1, -1};
};

class Message {
 public:
  Message(char* bytes, size_t size) : part_{bytes, size} {
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof control_;
  }
  msghdr* header() { return &message_; }
  cmsghdr* control() { return CMSG_FIRSTHDR(&message_); }

 private:
  iovec part_;
  msghdr message_{};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(Request::descriptors))]{};
};

void send(int socket, Request& request) {
  Message message(request.texts.data(), request.texts.size());
  cmsghdr* control = message.control();
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof request.descriptors);
  std::memcpy(CMSG_DATA(control), request.descriptors.data(), sizeof request.descriptors);
  if (sendmsg(socket, message.header(), MSG_NOSIGNAL) < 0) throw std::runtime_error("the fork server takes no request");
}

// False when the tests have ended.
bool receive(Request& request) {
  request.texts.resize(kLongestRequest);
  Message message(request.texts.data(), request.texts.size());
  const ssize_t got = recvmsg(kSocket, message.header(), MSG_CMSG_CLOEXEC);
  if (got <= 0 || message.control() == nullptr) return false;
  request.texts.resize(got);
  std::memcpy(request.descriptors.data(), CMSG_DATA(message.control()), sizeof request.descriptors);
  return true;
}

std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text + '\0';
  return joined;
}

// Pointers into `texts`, to those from `place` on, up to an empty one or the end. `place` is behind them afterwards.
std::vector<char*> pointers(std::string& texts, size_t& place) {
  std::vector<char*> all;
  for (; place < texts.size() && texts[place] != '\0'; place += std::strlen(&texts[place]) + 1)
    all.push_back(&texts[place]);
  ++place;
  all.push_back(nullptr);
  return all;
}

// In the new process, of which these are for good.
void become(const Request& request, int& argc, char**& argv) {
  static std::string texts;
  static std::vector<char*> arguments, variables;
  texts = request.texts;
  size_t place = 0;
  arguments = pointers(texts, place);
  variables = pointers(texts, place);
  argc = static_cast<int>(arguments.size()) - 1;
  argv = arguments.data();
  environ = variables.data();
  const auto [output, status] = request.descriptors;
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  close(kSocket);
}

// The server's processes that have not ended, with their pipes for the status.
class Children {
 public:
  Children() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signal_, nullptr);
    ended_ = signalfd(-1, &signal_, SFD_CLOEXEC);
  }
  // Readable when a process has ended.
  int ended() const { return ended_; }

  // False in the new process.
  bool fork(const Request& request) {
    const pid_t process = ::fork();
    if (process == 0) {
      sigprocmask(SIG_UNBLOCK, &signal_, nullptr);
      return false;
    }
    close(request.descriptors[0]);
    pipes_[process] = request.descriptors[1];
    return true;
  }

  void tell_ends() {
    signalfd_siginfo signal;
    if (read(ended_, &signal, sizeof signal) != sizeof signal) return;
    int status = 0;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto pipe = pipes_.extract(process);
      if (write(pipe.mapped(), &status, sizeof status) != sizeof status) _exit(1);
      close(pipe.mapped());
    }
  }

 private:
  sigset_t signal_;
  int ended_ = -1;
  std::map<pid_t, int> pipes_;
};

// The test's end of the socket. The server ends when it is closed.
int start_server() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("no socket for the fork server");
  std::vector<char*> variables;
  for (char** variable = environ; *variable; ++variable) {
    const bool of_server = std::strncmp(*variable, "OMP_NUM_THREADS=", 16) == 0;
    if (!of_server && std::strncmp(*variable, "GTEST_", 6) != 0) variables.push_back(*variable);
  }
  std::string threads = "OMP_NUM_THREADS=1", server = std::string(kServer) + "=1", name = "/proc/self/exe";
  variables.insert(variables.end(), {threads.data(), server.data(), nullptr});
  char* arguments[] = {name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kSocket);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, name.c_str(), &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) throw std::runtime_error("the test cannot execute itself");
  return ends[0];
}

int server() {
  static const int socket = start_server();
  return socket;
}

}  // namespace

void serve_forks(int& argc, char**& argv) {
  if (std::getenv(kServer) == nullptr) return;
  Children children;
  for (;;) {
    pollfd waits[] = {{kSocket, POLLIN, 0}, {children.ended(), POLLIN, 0}};
    if (poll(waits, 2, -1) < 0) _exit(1);
    if (waits[1].revents != 0) children.tell_ends();
    if (waits[0].revents == 0) continue;
    Request request;
    if (!receive(request)) _exit(0);
    if (!children.fork(request)) return become(request, argc, argv);
  }
}

int run_forked(const std::vector<std::string>& arguments, const std::vector<std::string>& variables, int output) {
  int status_pipe[2];
  if (pipe2(status_pipe, O_CLOEXEC) != 0) throw std::runtime_error("no pipe for a process's status");
  Request request{join(arguments) + '\0' + join(variables), {output, status_pipe[1]}};
  if (request.texts.size() > kLongestRequest) throw std::runtime_error("the variables of a test are too many");
  send(server(), request);
  close(status_pipe[1]);
  int status = 0;
  const ssize_t got = read(status_pipe[0], &status, sizeof status);
  close(status_pipe[0]);
  if (got != sizeof status) throw std::runtime_error("the fork server gave no status");
  return status;
}

}  // namespace fsdp::testing
