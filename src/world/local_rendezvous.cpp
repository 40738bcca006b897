#include "world/local_rendezvous.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/patience.h"

namespace fsdp::world {

namespace {

using files::Descriptor;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenTries{10};

struct Address {
  sockaddr_un socket{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&socket); }
};

// Names of jobs may be longer than the system allows here.
Address address_of(const std::string& job) {
  const std::string name = fmt::format("fsdp-{}-{:016x}", geteuid(), std::hash<std::string>()(job));
  Address address;
  address.socket.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.socket.sun_path + 1);  // behind a zero: abstract
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// Messages arrive whole.
Descriptor open_socket(int flags) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  FSDP_CHECK(socket.is_open(), "the ranks of this host need a socket to meet at, and none can be made: {}.",
             std::strerror(errno));
  return socket;
}

bool is_of_this_user(const Descriptor& connection) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(connection.number(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

// A byte that carries an open file.
struct Parcel {
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  Parcel() {
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
};

bool send_file(const Descriptor& connection, const Descriptor& file) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = file.number();
  std::memcpy(CMSG_DATA(header), &number, sizeof number);
  return sendmsg(connection.number(), &parcel.message, MSG_NOSIGNAL) == 1;
}

// Not open where the other side has closed the connection.
Descriptor receive_file(const Descriptor& connection) {
  Parcel parcel;
  if (recvmsg(connection.number(), &parcel.message, MSG_CMSG_CLOEXEC) != 1) return Descriptor();
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) return Descriptor();
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  return Descriptor(number);
}

// Rank 0's part.
class Host {
 public:
  Host(const std::string& job, int size, milliseconds timeout)
      : job_(job), timeout_(timeout), patience_(timeout), listener_(open_socket(SOCK_NONBLOCK)), came_(size) {}

  Descriptor wait_for_ranks() {
    listen();
    while (std::optional<int> missing = first_missing()) {
      FSDP_CHECK(!patience_.is_over(),
                 "rank {} of job '{}' did not come to rank 0 within {} ms. Check that every rank has started, on this "
                 "host and as this user.",
                 *missing, job_, timeout_.count());
      wait_for_events();
      accept_all();
      hear_all();
    }
    Descriptor file = make_anonymous_file();
    for (const Descriptor& connection : came_) {
      if (connection.is_open()) send_file(connection, file);  // a rank that is gone is missed soon enough
    }
    return file;
  }

 private:
  // Another rank 0 of this name may be about to be done.
  void listen() {
    const Address address = address_of(job_);
    while (bind(listener_.number(), address.get(), address.bytes) != 0) {
      FSDP_CHECK(
          errno == EADDRINUSE && !patience_.is_over(),
          "rank 0 cannot listen for the other ranks of job '{}' within {} ms: {}. Another job of this name may be "
          "waiting for its ranks on this host: end it, or give this one another name.",
          job_, timeout_.count(), std::strerror(errno));
      std::this_thread::sleep_for(kBetweenTries);
    }
    FSDP_CHECK(::listen(listener_.number(), static_cast<int>(came_.size())) == 0,
               "rank 0 cannot listen for the other ranks of job '{}': {}.", job_, std::strerror(errno));
  }

  std::optional<int> first_missing() const {
    for (size_t rank = 1; rank < came_.size(); ++rank) {
      if (!came_[rank].is_open()) return static_cast<int>(rank);
    }
    return std::nullopt;
  }

  void wait_for_events() {
    std::vector<pollfd> events{{listener_.number(), POLLIN, 0}};
    for (const Descriptor& visitor : unheard_) events.push_back({visitor.number(), POLLIN, 0});
    poll(events.data(), events.size(), static_cast<int>(patience_.until_next_look().count()));
  }

  void accept_all() {
    for (;;) {
      Descriptor visitor(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!visitor.is_open()) return;
      if (is_of_this_user(visitor)) unheard_.push_back(std::move(visitor));
    }
  }

  // A visitor says its rank, or goes.
  void hear_all() {
    std::vector<Descriptor> silent;
    for (Descriptor& visitor : unheard_) {
      int32_t rank = 0;
      const ssize_t got = recv(visitor.number(), &rank, sizeof rank, MSG_DONTWAIT);
      if (got == sizeof rank) {
        take_in(rank, std::move(visitor));
      } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        silent.push_back(std::move(visitor));
      }
    }
    unheard_ = std::move(silent);
  }

  void take_in(int32_t rank, Descriptor visitor) {
    FSDP_CHECK(0 < rank && rank < static_cast<int>(came_.size()) && !came_[static_cast<size_t>(rank)].is_open(),
               "a process came as rank {} of job '{}', which has {} ranks, each of them once. Do two jobs of this host "
               "have one name?",
               rank, job_, came_.size());
    came_[static_cast<size_t>(rank)] = std::move(visitor);
  }

  std::string job_;
  milliseconds timeout_;
  Patience patience_;
  Descriptor listener_;
  std::vector<Descriptor> unheard_;
  std::vector<Descriptor> came_;  // by rank
};

Descriptor connect_to_host(const std::string& job, milliseconds timeout, Patience& patience) {
  const Address address = address_of(job);
  for (;;) {
    Descriptor connection = open_socket(SOCK_NONBLOCK);
    if (connect(connection.number(), address.get(), address.bytes) == 0) {
      FSDP_CHECK(is_of_this_user(connection), "another user of this host listens where rank 0 of job '{}' should.",
                 job);
      return connection;
    }
    FSDP_CHECK(!patience.is_over(),
               "rank 0 of job '{}' could not be reached within {} ms: {}. Check that it has started, on this host and "
               "as this user.",
               job, timeout.count(), std::strerror(errno));
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Descriptor join_host(const std::string& job, int32_t rank, milliseconds timeout) {
  Patience patience(timeout);
  const Descriptor connection = connect_to_host(job, timeout, patience);
  send(connection.number(), &rank, sizeof rank, MSG_NOSIGNAL);
  pollfd answer{connection.number(), POLLIN, 0};
  while (poll(&answer, 1, static_cast<int>(patience.until_next_look().count())) != 1) {
    FSDP_CHECK(!patience.is_over(), "not all ranks of job '{}' came within {} ms. Check that every rank has started.",
               job, timeout.count());
  }
  Descriptor file = receive_file(connection);
  FSDP_CHECK(file.is_open(), "rank 0 of job '{}' stopped waiting before all ranks had come; see its own message.", job);
  return file;
}

}  // namespace

files::Descriptor make_anonymous_file() {
  Descriptor file(memfd_create("fsdp-store", MFD_CLOEXEC));
  FSDP_CHECK(file.is_open(),
             "the ranks need a file in memory to meet in, and none can be made: {}. Raise the limit of "
             "open files (ulimit -n).",
             std::strerror(errno));
  return file;
}

std::string path_of(const files::Descriptor& file) { return fmt::format("/proc/self/fd/{}", file.number()); }

files::Descriptor rendezvous_on_host(const std::string& job, int rank, int size, milliseconds timeout) {
  return rank == 0 ? Host(job, size, timeout).wait_for_ranks() : join_host(job, rank, timeout);
}

}  // namespace fsdp::world
