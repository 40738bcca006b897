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
#include "base/patience.h"
#include "world/local_meeting.h"
#include "world/patient_store.h"

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

c10::intrusive_ptr<c10d::Store> open_file_store(const files::Descriptor& file, int size) {
  return c10::make_intrusive<c10d::FileStore>(path_of(file), size);
}

Rendezvous::Rendezvous(const LauncherJob& job, std::chrono::milliseconds timeout)
    : timeout_(timeout), size_(job.identity.size) {
  switch (job.meeting) {
    case Meeting::Alone:
      break;
    case Meeting::OneHost:
      meet_on_this_host(job);
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

void Rendezvous::meet_on_this_host(const LauncherJob& job) {
  file_ = meet_on_host(job.id.empty() ? parent_name() : job.id, job.identity.rank, size_, timeout_);
  store_ = open_file_store(file_, size_);
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

c10::intrusive_ptr<c10d::Store> Rendezvous::store_of(int launch, std::chrono::milliseconds timeout) const {
  if (!store_) return {};
  auto store = c10::make_intrusive<PatientStore>(fmt::format("launch{}", launch), store_);
  store->setTimeout(timeout);
  return store;
}

void Rendezvous::finish(int launch, bool success, std::chrono::milliseconds timeout) const {
  const auto store = store_of(launch, timeout);
  if (!store) return;
  try {
    store->add(kEndedKey, 1);
    Patience patience(timeout);
    while (hosts_ && success && store->add(kEndedKey, 0) < size_ && !patience.is_over())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } catch (const std::exception&) {
    // The store went away with the rank that hosted it: nobody is left to wait for.
  }
}

}  // namespace fsdp::world
