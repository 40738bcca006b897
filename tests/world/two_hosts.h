// Two hosts on this machine, as far as a network goes: two network namespaces with a cable between them.
//
// They have no name and live as long as the test's process and its ranks, so nothing is left behind however these end.
#pragma once

#include <string>
#include <vector>

namespace fsdp::testing {

class TwoHosts {
 public:
  // In a rank's process it makes nothing. Needs root and the program `ip`.
  enum class DefaultRoute { None, Cable };  // with one, every name that is looked up is waited for in vain
  explicit TwoHosts(DefaultRoute route = DefaultRoute::None);
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // Why they could not be made; empty when they were.
  const std::string& problem() const { return problem_; }

  // The environment of rank `rank` of 4, two on each host, as torchrun sets it; and what `enter` needs.
  // Rank 0's host is called `address`; kVersion6 is its other one.
  std::vector<std::string> variables(int rank, const std::string& address = "10.0.0.1") const;
  static constexpr const char* kVersion6 = "fd00::1";
  // Moves the calling thread, and those that it starts, to the host that its environment names.
  static void enter();
  // Bytes that came over the cable to the calling thread's host so far.
  static long received_bytes();

 private:
  int hosts_[2] = {-1, -1};  // a file descriptor keeps a namespace alive
  std::string problem_;
};

}  // namespace fsdp::testing
