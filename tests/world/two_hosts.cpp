#include "world/two_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace fsdp::testing {

namespace {

constexpr char kHost[] = "FSDP_TEST_HOST";

std::string path_of(int descriptor) { return fmt::format("/proc/{}/fd/{}", getpid(), descriptor); }

// A descriptor of a new network, in which `commands` were run. -1: it could not be made, see errno; -2: they failed.
int make_host(const std::string& commands) {
  int host = -1, error = 0;
  std::thread([&] {  // a thread of its own: the others stay where they are
    if (unshare(CLONE_NEWNET) == 0) host = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    error = errno;
    if (host >= 0 && std::system(commands.c_str()) != 0) host = -2;
  })
      .join();
  errno = error;
  return host;
}

constexpr const char* kPlugIn = "ip link set lo up && ip link set cable addrgenmode none up";

// The system notices somewhat later that a cable has two ends. Until then it sends nothing, and a host that connects by
// IPv6 finds no route. Addresses of IPv6 are usable at once (nodad).
std::string set_up(int number, TwoHosts::DefaultRoute route) {
  return fmt::format(
      "left=100; until ip -o link show dev cable | grep -q \"state UP\"; do left=$((left - 1)); "
      "[ $left -gt 0 ] || exit 1; sleep 0.1; done; "
      "ip addr add 10.0.0.{0}/24 dev cable && ip addr add fd00::{0}/64 dev cable nodad{1}",
      number, route == TwoHosts::DefaultRoute::Cable ? " && ip route add default dev cable" : "");
}

}  // namespace

TwoHosts::TwoHosts(DefaultRoute route) {
  if (std::getenv(kHost)) return;
  if (std::system("ip -Version >/dev/null 2>&1") != 0) {
    problem_ = "the program ip (Debian: iproute2) was not found";
    return;
  }
  hosts_[0] = make_host("true");
  if (hosts_[0] < 0) {
    problem_ = fmt::format("no network namespace can be made here: {}", std::strerror(errno));
    return;
  }
  hosts_[1] = make_host(
      fmt::format("ip link add cable type veth peer name cable netns {0} && {1} && nsenter --net={0} sh -c '{1}' && "
                  "( {2} ) && nsenter --net={0} sh -c '{3}'",
                  path_of(hosts_[0]), kPlugIn, set_up(2, route), set_up(1, route)));
  if (hosts_[1] < 0) problem_ = "two network namespaces cannot be connected here; the message of ip is above";
}

TwoHosts::~TwoHosts() {
  for (int host : hosts_) {
    if (host >= 0) close(host);
  }
}

std::vector<std::string> TwoHosts::variables(int rank, const std::string& address) const {
  return {fmt::format("RANK={}", rank),
          "WORLD_SIZE=4",
          fmt::format("LOCAL_RANK={}", rank % 2),
          "LOCAL_WORLD_SIZE=2",
          "MASTER_ADDR=" + address,
          "MASTER_PORT=29500",
          "TORCHELASTIC_RUN_ID=hosts",
          fmt::format("{}={}", kHost, path_of(hosts_[rank / 2]))};
}

void TwoHosts::enter() {
  const int host = open(std::getenv(kHost), O_RDONLY | O_CLOEXEC);
  const bool entered = host >= 0 && setns(host, CLONE_NEWNET) == 0;
  if (!entered) throw std::runtime_error(fmt::format("a rank cannot enter its host: {}", std::strerror(errno)));
  close(host);
}

// proc_net(5): the interface's name and a colon, then the bytes received.
long TwoHosts::received_bytes() {
  std::ifstream interfaces("/proc/thread-self/net/dev");
  for (std::string word; interfaces >> word;) {
    long bytes = 0;
    if (word == "cable:" && interfaces >> bytes) return bytes;
  }
  throw std::runtime_error("this host has no cable");
}

}  // namespace fsdp::testing
