// Over which addresses the ranks of several hosts reach each other.
//
// The store listens at one address of rank 0's host and not at all of them; each rank's other connections go over the
// interface by which it reaches that address. All addresses are numeric, of version 4 or 6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::world {

// Names of rank 0's host, as this host sees it, in the order in which they should be tried. A name that
// stands for loopback here is that of this host itself (Debian's 127.0.1.1): where there is a default route, others
// reach it at that interface's address, and so do its own ranks. A numeric address stays as it is. Empty
// for a name that nothing is known of, perhaps not yet.
std::vector<std::string> addresses_of(const std::string& host);

struct ListeningSocket {
  std::string address;
  int socket;  // bound, not yet listening; the caller's
};
// At the first of the addresses that this host has. Throws Error when it has none of them or the port is not free.
ListeningSocket listen_at(const std::vector<std::string>& addresses, uint16_t port);

// This host's address on the way to the first of them that there is a way to; empty where there is none. Sends nothing.
std::string own_address_towards(const std::vector<std::string>& addresses, uint16_t port);

// "10.0.0.1:29500", "[fd00::1]:29500".
std::string with_port(const std::string& address, uint16_t port);

}  // namespace fsdp::world
