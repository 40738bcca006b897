// How a group comes to be: a backend by name, over a store that its ranks share.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/transport.h"
#include "collectives/world_calls.h"

namespace fsdp::collectives {

class Wire;

struct GroupSpec {
  c10::intrusive_ptr<c10d::Store> store;  // of this group alone; none for a group of one
  int rank = 0;
  int size = 1;
  bool one_host = true;  // then nothing leaves the loopback interface
  // Ranks of each host, if there are several hosts with equally many ranks, numbered host by host; otherwise 0.
  int ranks_of_a_host = 0;
  std::string address = {};  // of this host, as the others reach it; empty: the system's choice
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  torch::Device device = torch::kCPU;  // of this rank's units
  bool shares_device = false;          // whether some ranks of the group have one GPU between them
  // This rank's calls of its worlds; none: those of the peers are not looked at.
  std::shared_ptr<WorldCalls> calls = nullptr;
  WorldCalls::Place place = {};       // of the group, in these
  std::vector<int> world_ranks = {};  // how messages call the ranks of a smaller group; empty: by their own number
};

// The names that `make_group` takes besides "auto".
std::vector<std::string> backend_names();
// Why `make_group` would not take the name; empty where it does.
std::string problem_of_backend(const std::string& backend);

// "auto" takes the best for these ranks. Throws Error for a name that is not known or not in this build.
std::unique_ptr<Group> make_group(const std::string& backend, const GroupSpec& spec);

// True if the group that `make_group` makes of this exchanges over NCCL.
bool goes_over_nccl(const GroupSpec& spec);

// One rank: hands out its own memory.
std::unique_ptr<Group> make_single_group(torch::Device device = torch::kCPU);
// Over `host`, a group of the same ranks on the CPU, with copies to and from it.
std::unique_ptr<Group> make_staged_group(std::shared_ptr<Group> host, torch::Device device);
// As above, but the shards of its units, and their sums, are the host's: on the CPU.
std::unique_ptr<Group> make_host_shard_group(std::unique_ptr<Group> host, torch::Device device);
// For ranks with a GPU each. `host` is of the same ranks, on the CPU.
std::unique_ptr<Group> make_nccl_group(const GroupSpec& spec, std::unique_ptr<Group> host);
bool has_nccl();
// A name that two ranks of a host have in common where they share one GPU.
std::string name_of_gpu(torch::Device device);
std::unique_ptr<Group> make_gloo_group(const GroupSpec& spec);
// For ranks of one host.
std::unique_ptr<Group> make_shm_group(const GroupSpec& spec);
// For several hosts with more than one rank each: shared memory within a host, Gloo between them.
std::unique_ptr<Group> make_hosts_group(const GroupSpec& spec);

// The wire of all groups over Gloo.
std::shared_ptr<Wire> make_gloo_wire(const GroupSpec& spec);
std::unique_ptr<Transport> make_gloo_transport(const GroupSpec& spec);

}  // namespace fsdp::collectives
