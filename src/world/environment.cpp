#include "world/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>

#include "base/error.h"
#include "world/host_list.h"

namespace fsdp::world {

namespace {

// An empty variable is as good as none.
const std::string* find(const Environment& environment, const std::string& name) {
  auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

bool has(const Environment& environment, const std::string& name) { return find(environment, name) != nullptr; }

std::string text(const Environment& environment, const std::string& name, const std::string& fallback = "") {
  const std::string* found = find(environment, name);
  return found ? *found : fallback;
}

int64_t parse(const std::string& name, const std::string& value, int64_t least, int64_t most) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  bool fits = error == std::errc() && end == value.data() + value.size() && least <= number && number <= most;
  FSDP_CHECK(fits, "the environment has {}='{}', expected a number from {} to {}.", name, value, least, most);
  return number;
}

constexpr int kMost = std::numeric_limits<int>::max();

int number(const Environment& environment, const std::string& name, int least, int most = kMost) {
  const std::string* found = find(environment, name);
  FSDP_CHECK(found, "the environment lacks {}, which the launcher should set to a number of at least {}.", name, least);
  return static_cast<int>(parse(name, *found, least, most));
}

int number_or(const Environment& environment, const std::string& name, int fallback, int least, int most = kMost) {
  return has(environment, name) ? number(environment, name, least, most) : fallback;
}

// The variables that hold an identity, by launcher.
struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

Identity read_identity(const Environment& environment, const Names& names) {
  Identity identity;
  identity.size = number(environment, names.size, 1);
  identity.rank = number(environment, names.rank, 0, identity.size - 1);
  identity.local_size = number_or(environment, names.local_size, 1, 1, identity.size);
  identity.local_rank = number_or(environment, names.local_rank, 0, 0, identity.local_size - 1);
  return identity;
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

uint16_t master_port(const Environment& environment) {
  return static_cast<uint16_t>(number(environment, "MASTER_PORT", 1, 65535));
}

// RANK and WORLD_SIZE: torchrun, Kubernetes' training operator, or a script.
LauncherJob from_plain(const Environment& environment) {
  bool torchrun = has(environment, "TORCHELASTIC_RUN_ID");
  LauncherJob job{.launcher = torchrun ? "torchrun" : "RANK and WORLD_SIZE"};
  job.identity = read_identity(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  job.error_file = text(environment, "TORCHELASTIC_ERROR_FILE");
  job.attempt = number_or(environment, "TORCHELASTIC_RESTART_COUNT", 0, 0);
  if (job.identity.size == 1) return job;
  job.address = text(environment, "MASTER_ADDR");
  FSDP_CHECK(
      !job.address.empty(),
      "the environment has RANK and WORLD_SIZE but no MASTER_ADDR. Set it to the host of "
      "rank 0, and MASTER_PORT to a free port there; or unset RANK and WORLD_SIZE to start ranks on this machine.");
  job.port = master_port(environment);
  // Without LOCAL_WORLD_SIZE a loopback address still means that all ranks are on this host.
  if (is_loopback(job.address) && !has(environment, "LOCAL_WORLD_SIZE")) {
    job.identity.local_rank = job.identity.rank;
    job.identity.local_size = job.identity.size;
  }
  std::string agent = text(environment, "TORCHELASTIC_USE_AGENT_STORE");
  std::transform(agent.begin(), agent.end(), agent.begin(), [](unsigned char c) { return std::tolower(c); });
  job.rendezvous = agent == "true" || agent == "1" ? RendezvousPlace::Agent : RendezvousPlace::FirstRank;
  return job;
}

// Ports for jobs that name none: below the range that systems hand out by themselves.
uint16_t port_of(const std::string& id) { return static_cast<uint16_t>(20000 + std::hash<std::string>()(id) % 10000); }

// The ranks of one host need no network to meet. Those of several need the first one's address.
void choose_rendezvous(const Environment& environment, const std::string& first_host, LauncherJob& job) {
  if (job.identity.size == 1) return;
  if (job.identity.local_size == job.identity.size) {
    job.rendezvous = RendezvousPlace::OneHost;
    return;
  }
  job.rendezvous = RendezvousPlace::FirstRank;
  job.address = text(environment, "MASTER_ADDR", first_host);
  FSDP_CHECK(!job.address.empty(),
             "the {} job has ranks on several hosts, and MASTER_ADDR is not set. Set it to the host of rank 0 in the "
             "environment of every rank.",
             job.launcher);
  FSDP_CHECK(!job.id.empty() || has(environment, "MASTER_PORT"),
             "the {} job has ranks on several hosts, and no port to "
             "meet at. Set MASTER_PORT to a free port of rank 0's host in the environment of every rank.",
             job.launcher);
  job.port = has(environment, "MASTER_PORT") ? master_port(environment) : port_of(job.id);
}

LauncherJob from_open_mpi(const Environment& environment) {
  LauncherJob job{.launcher = "Open MPI"};
  job.identity = read_identity(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  job.id = text(environment, "PMIX_NAMESPACE", text(environment, "OMPI_MCA_ess_base_jobid"));
  choose_rendezvous(environment, "", job);
  return job;
}

std::string slurm_step_tasks(const Environment& environment) {
  return has(environment, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

// True if srun started this process as one of several. A batch script and salloc's shell have SLURM_PROCID and
// SLURM_NTASKS too, but run once. The script belongs to no step. The shell belongs to a step of one task, or to a
// reserved number (0xfffffff0 and above).
bool is_slurm_task(const Environment& environment) {
  const std::string* step = find(environment, "SLURM_STEP_ID");
  if (!step) step = find(environment, "SLURM_STEPID");
  if (!step || !has(environment, "SLURM_PROCID")) return false;
  if (parse("SLURM_STEP_ID", *step, 0, 0xffffffffLL) >= 0xfffffff0LL) return false;
  std::string tasks = slurm_step_tasks(environment);
  return has(environment, tasks) && number(environment, tasks, 1) > 1;
}

int slurm_local_size(const Environment& environment, int size) {
  const char* nodes = has(environment, "SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  if (number_or(environment, nodes, 1, 1) == 1) return size;
  const char* name = has(environment, "SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE"  //
                                                                   : "SLURM_TASKS_PER_NODE";
  std::vector<int> counts = expand_counts(text(environment, name, "1"));
  int node = number(environment, "SLURM_NODEID", 0);
  FSDP_CHECK(node < static_cast<int>(counts.size()), "the environment has SLURM_NODEID={} but {}='{}' lists {} nodes.",
             node, name, text(environment, name), counts.size());
  return counts[node];
}

LauncherJob from_slurm(const Environment& environment) {
  LauncherJob job{.launcher = "SLURM"};
  Identity& identity = job.identity;
  identity.size = number(environment, slurm_step_tasks(environment), 1);
  identity.rank = number(environment, "SLURM_PROCID", 0, identity.size - 1);
  identity.local_size = slurm_local_size(environment, identity.size);
  identity.local_rank = number(environment, "SLURM_LOCALID", 0, identity.local_size - 1);
  job.attempt = number_or(environment, "SLURM_RESTART_COUNT", 0, 0);
  job.id = fmt::format("slurm-{}-{}-{}", text(environment, "SLURM_JOB_ID"),
                       text(environment, "SLURM_STEP_ID", text(environment, "SLURM_STEPID")), job.attempt);
  std::string list = text(environment, "SLURM_STEP_NODELIST", text(environment, "SLURM_JOB_NODELIST"));
  choose_rendezvous(environment, list.empty() ? "" : expand_host_list(list).front(), job);
  return job;
}

std::optional<LauncherJob> recognise(const Environment& environment) {
  bool rank = has(environment, "RANK"), size = has(environment, "WORLD_SIZE");
  FSDP_CHECK(rank == size, "the environment has {} but no {}. Set both, as a launcher does, or unset it.",
             rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK");
  // The most specific first: torchrun and mpirun are often used within a SLURM job.
  if (rank) return from_plain(environment);
  if (has(environment, "OMPI_COMM_WORLD_RANK")) return from_open_mpi(environment);
  if (is_slurm_task(environment)) return from_slurm(environment);
  return std::nullopt;
}

}  // namespace

std::optional<LauncherJob> find_launcher(const Environment& environment) {
  std::optional<LauncherJob> job = recognise(environment);
  if (!job) return job;
  job->identity.restarts = job->attempt;
  job->one_host = job->identity.local_size == job->identity.size;
  job->secret = find_secret(environment);
  return job;
}

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; *entry; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals) environment.emplace(std::string(*entry, equals - *entry), equals + 1);
  }
  return environment;
}

}  // namespace fsdp::world
