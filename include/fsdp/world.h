// One process of a training job, and how a job starts.
//
// `launch` runs a function in every rank: it forks them on this machine, or, under torchrun (--no-python), SLURM or
// Open MPI, runs it in the one rank that this process already is. A rank sees the others through its `World`.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fsdp/error.h"
#include "fsdp/movable.h"

namespace fsdp {

namespace world {
class State;
}

// A group of ranks, as one of them sees it. A cheap handle: copies share one group.
//
// All ranks of the group call the collectives below in the same order, each from one thread. Every wait ends after the
// world's timeout with an `Error` that names the rank that did not answer; after a failure each later call fails too.
// A rank in such a call while another rank trains is an `Error` within seconds, which names both.
// Tensors are on the CPU or on `device()`.
class World {
 public:
  int rank() const;        // 0 <= rank() < size()
  int size() const;        // ranks in this group
  int local_rank() const;  // among the ranks of this host
  int local_size() const;  // ranks of this host
  // How often the job was started again after a failure, by `launch` or by torchrun.
  int restarts() const;
  // Where this rank computes: the CPU, or its GPU, to which a module is moved (`module->to(world.device())`) before it
  // is sharded. See LaunchOptions::backend.
  torch::Device device() const;

  void barrier();
  // The sum over all ranks, added in rank order (16-bit types in fp32), in place: the same bits on every rank.
  // `tensor` has the same shape and dtype everywhere; it need not be contiguous.
  void all_reduce_(torch::Tensor& tensor);
  // The source's values to all, in place. Same shape and dtype everywhere.
  void broadcast_(torch::Tensor& tensor, int source = 0);
  // Every rank's tensor, in rank order. Same shape and dtype everywhere.
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
  // The ranks that passed the same color, in rank order. A collective: every rank of this group calls it.
  World split(int color) const;

  explicit World(std::shared_ptr<world::State> state) : state_(std::move(state)) {}
  const std::shared_ptr<world::State>& state() const { return state_.get(); }

 private:
  detail::Movable<"World", std::shared_ptr<world::State>> state_;
};

// How a job of forked ranks failed.
struct JobFailure {
  int ranks = 1;     // that it had
  int lost = 1;      // of these, that failed by themselves, and not for want of another
  int code = 1;      // as `launch` would return it
  int restarts = 0;  // of the job so far
};

struct LaunchOptions {
  int ranks = 1;  // without a launcher: on this machine
  // shm: shared memory, on one host. gloo. hosts: shared memory within each host and Gloo between them, for as many
  // ranks on every host, numbered one host's after another's.
  // These compute on the CPU. nccl: each rank on a GPU of its own, the rank's local number modulo the host's GPUs.
  // auto, where there is a GPU: on it, by nccl, or by shared memory where ranks have one GPU between them
  // (docs/cuda.md). auto, where there is none: shm on one host, hosts on several where they are so and have more than
  // one rank each, otherwise gloo.
  std::string backend = "auto";
  // Of every wait for another rank; time in which this one was stopped, with the whole job or alone, does not count. A
  // year at most.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  int max_restarts = 0;      // whole-job restarts after a rank failed
  bool plain_rank0 = false;  // rank 0 writes to the terminal itself, unprefixed
  // Asked after a failure instead of max_restarts, in the process that launched: with how many ranks the job is started
  // again; 0: not.
  std::function<int(const JobFailure&)> restart_with = nullptr;
  // Shards and optimizer state lie in memory that this process holds, so that ranks that are started again go on with
  // the step that was broken: hot_restart.h. On the CPU, or with Options::cpu_offload. Not under a launcher, which
  // starts processes that know nothing of each other.
  bool hot_restart = false;
};

// Runs `body` in every rank and returns the exit code: 0 when all ranks succeeded, 2 for options that cannot work, 130
// after Ctrl-C, otherwise that of the rank that failed first (128 + signal when it was killed).
//
// With no launcher in the environment and more than one rank, the ranks are forked, their output is prefixed by rank,
// and one that dies ends the others; one rank runs in this process. Forking a process that has threads would hang in
// LibTorch, so it throws `Error`: call `launch` before anything starts a thread. Unless OMP_NUM_THREADS is set, the
// ranks share the machine's cores evenly. A signal (SIGINT, SIGTERM, or SIGHUP where that is not ignored) ends all
// ranks by SIGTERM; one over a second later kills them. SIGUSR1 and SIGUSR2 are passed on to ranks that have a handler
// for them, and end the job where none has. Where nobody takes the output, the ranks wait, and nothing else does.
//
// A forked rank reads /dev/null as its standard input. It ends without the handlers of atexit() and without the
// destructors of global objects: these are the launching process's. If a rank calls exit(0), and others then wait for
// it, the job fails and names it. More ranks than the limits of this machine allow are refused before any is forked.
//
// launch opens /dev/null as each of descriptors 0, 1 and 2 that is closed. While forked ranks run, SIGCHLD is not
// ignored in this process. The ranks have its signal mask and dispositions as they were before. If they block SIGTERM,
// a signal ends them by SIGKILL, three seconds later. One rank in this process leaves all signals as they are.
//
// With `max_restarts` or `restart_with`, one rank is forked as well, so that it can be started again. Jobs that fail
// within ten seconds, one after the other, are started again after a pause that doubles, ten seconds at most.
//
// Under a launcher a process may launch again and again, with the same ranks; they meet at the first time.
int launch(const LaunchOptions& options, const std::function<void(World&)>& body);

}  // namespace fsdp
