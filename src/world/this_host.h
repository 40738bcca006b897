// The host that this process runs on, as its rank describes it to other ranks.
#pragma once

#include <cstdint>
#include <string>

namespace fsdp::world {

// Equal in two processes only when they reach each other over loopback: same kernel, same network namespace.
std::string machine();
// A number in place of machine().
int64_t host_fingerprint();
// For messages; "?" if the host has no name.
std::string host_name();

}  // namespace fsdp::world
