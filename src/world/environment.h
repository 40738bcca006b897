// Reads a launcher's environment: whether this process is one rank of a job already, and which.
//
// A pure function of the variables: torchrun, plain RANK and WORLD_SIZE (Kubernetes, by hand), Open MPI and SLURM.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "world/identity.h"
#include "world/job_secret.h"

namespace fsdp::world {

using Environment = std::map<std::string, std::string>;

// Where the ranks of a job find each other.
enum class RendezvousPlace {
  Alone,      // one rank: nowhere
  OneHost,    // all on this host, with nothing agreed on but the job's name
  Agent,      // the launcher has a store already
  FirstRank,  // rank 0 has to host the store
};

struct LauncherJob {
  std::string launcher = {};  // for messages
  Identity identity = {};
  bool one_host = false;
  RendezvousPlace rendezvous = RendezvousPlace::Alone;
  std::string address = {};  // of the store: Agent and FirstRank
  uint16_t port = 0;
  int attempt = 0;              // which restart of the whole job this is
  std::string id = {};          // OneHost: the job's name; empty: that of the process that started the ranks
  JobSecret secret = {};        // what the ranks know each other by
  std::string error_file = {};  // where the launcher wants the cause of a failure; may be empty
};

// None when no launcher started this process. Throws Error for variables that contradict each other or cannot be read.
std::optional<LauncherJob> find_launcher(const Environment& environment);

// This process's variables.
Environment read_environment();

}  // namespace fsdp::world
