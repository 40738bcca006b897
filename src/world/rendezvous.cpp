#include "world/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "world/temporary_directory.h"

namespace fsdp::world {

namespace {

constexpr char kEndedKey[] = "fsdp/ended";

// The ranks of one mpirun have one parent; with its start time it is not mistaken for an earlier one of that number.
std::string parent_name() {
  std::ifstream file(fmt::format("/proc/{}/stat", getppid()));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  constexpr int kStartTime = 20;  // counted behind the process's name
  for (int i = 0; i < kStartTime; ++i) fields >> field;
  return fmt::format("{}-{}", getppid(), field);
}

std::string file_name(std::string id) {
  for (char& c : id)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return id;
}

// A socket for a store's server that nobody outside this host can reach: the server itself would listen everywhere.
int bind_loopback(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  FSDP_CHECK(bound, "rank 0 cannot listen on 127.0.0.1:{}: {}. Set MASTER_PORT to a free port.", port,
             std::strerror(errno));
  return fd;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_file_store(const std::filesystem::path& directory, int size,
                                                std::chrono::milliseconds timeout) {
  auto store = c10::make_intrusive<c10d::FileStore>((directory / "store").string(), size);
  store->setTimeout(timeout);
  return store;
}

Rendezvous::Rendezvous(const LauncherJob& job, std::chrono::milliseconds timeout)
    : timeout_(timeout), size_(job.identity.size) {
  switch (job.meeting) {
    case Meeting::Alone:
      break;
    case Meeting::Directory:
      meet_in_directory(job);
      break;
    case Meeting::FirstRank:
      meet_at_first_rank(job);
      break;
    case Meeting::Agent:
      connect(job, job.address, -1);
      store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("/worker/attempt_{}", job.attempt), store_);
      break;
  }
}

void Rendezvous::meet_in_directory(const LauncherJob& job) {
  std::string id = job.id.empty() ? parent_name() : job.id;
  directory_ = shared_directory(fmt::format("fsdp-{}-{}", geteuid(), file_name(id)));
  store_ = open_file_store(directory_, size_, timeout_);
}

void Rendezvous::meet_at_first_rank(const LauncherJob& job) {
  hosts_ = job.identity.rank == 0;
  bool binds = hosts_ && job.one_host;
  connect(job, job.one_host ? "127.0.0.1" : job.address, binds ? bind_loopback(job.port) : -1);
}

void Rendezvous::connect(const LauncherJob& job, const std::string& address, int listening_socket) {
  c10d::TCPStoreOptions options;
  options.port = job.port;
  options.isServer = hosts_;
  options.numWorkers = size_;
  options.waitWorkers = false;
  options.timeout = timeout_;
  if (listening_socket >= 0) options.masterListenFd = listening_socket;
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const std::exception& failure) {
    std::string text = failure.what();
    FSDP_CHECK(false,
               "the job's store at {}:{} ({}) could not be {} within {} ms: {}. Check MASTER_ADDR and MASTER_PORT, "
               "and that rank 0 has started.",
               address, job.port, job.launcher, hosts_ ? "opened" : "reached", timeout_.count(),
               text.substr(0, text.find('\n')));
  }
}

void Rendezvous::finish(bool success) {
  auto store = std::exchange(store_, {});
  if (!store) return;
  try {
    int64_t ended = store->add(kEndedKey, 1);
    if (!directory_.empty() && ended == size_) std::filesystem::remove_all(directory_);
    if (hosts_ && success) wait_for_others(*store);
  } catch (const std::exception&) {
    // The store went away with the rank that hosted it: nothing is left to tidy.
  }
}

void Rendezvous::wait_for_others(c10d::Store& store) const {
  auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (store.add(kEndedKey, 0) < size_ && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace fsdp::world
