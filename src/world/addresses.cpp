#include "world/addresses.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace fsdp::world {

namespace {

using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Resolved resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {failed == 0 ? found : nullptr, freeaddrinfo};
}

std::string text_of(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  const int failed = getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text : "";
}

bool is_loopback_address(const std::string& address) { return address == "::1" || address.rfind("127.", 0) == 0; }

// Documentation's own networks (RFC 5737, RFC 3849): addresses that only a default route leads to.
const std::vector<std::string> kElsewhere{"192.0.2.1", "2001:db8::1"};

}  // namespace

std::vector<std::string> addresses_of(const std::string& host) {
  if (resolve(host, 0, AI_NUMERICHOST)) return {host};
  const Resolved resolved = resolve(host, 0, 0);
  std::vector<std::string> all, others;
  for (const addrinfo* entry = resolved.get(); entry; entry = entry->ai_next) {
    const std::string address = text_of(entry->ai_addr, entry->ai_addrlen);
    if (address.empty() || std::count(all.begin(), all.end(), address) > 0) continue;
    all.push_back(address);
    if (!is_loopback_address(address)) others.push_back(address);
  }
  if (all.empty() || !others.empty()) return others;
  const std::string outside = own_address_towards(kElsewhere, 9);
  return outside.empty() ? all : std::vector{outside};
}

ListeningSocket listen_at(const std::vector<std::string>& addresses, uint16_t port) {
  int error = 0;
  for (const std::string& address : addresses) {
    const Resolved resolved = resolve(address, port, AI_NUMERICHOST);
    if (!resolved) continue;
    const int fd = socket(resolved->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && bind(fd, resolved->ai_addr, resolved->ai_addrlen) == 0) return {address, fd};
    // That an address is not this host's is of interest only where nothing else is wrong.
    if (error == 0 || errno != EADDRNOTAVAIL) error = errno;
    if (fd >= 0) close(fd);
  }
  FSDP_CHECK(error != EADDRNOTAVAIL && error != 0,
             "rank 0 cannot listen on '{}', which is not an address of this host. Set MASTER_ADDR to an address of "
             "rank 0's host that the other hosts can reach.",
             fmt::join(addresses, ", "));
  throw_error(fmt::format("{}rank 0 cannot listen on {}: {}. Set MASTER_PORT to a free port.", message_prefix(),
                          with_port(addresses.front(), port), std::strerror(error)));
}

std::string own_address_towards(const std::vector<std::string>& addresses, uint16_t port) {
  for (const std::string& address : addresses) {
    const Resolved resolved = resolve(address, port, AI_NUMERICHOST);
    if (!resolved) continue;
    const int fd = socket(resolved->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    const bool found = fd >= 0 && connect(fd, resolved->ai_addr, resolved->ai_addrlen) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    if (fd >= 0) close(fd);
    if (found) return text_of(reinterpret_cast<sockaddr*>(&own), length);
  }
  return "";
}

std::string with_port(const std::string& address, uint16_t port) {
  const bool is_version_6 = address.find(':') != std::string::npos;
  return is_version_6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace fsdp::world
