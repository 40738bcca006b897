// One process of a training job, and how a job starts.
//
// `launch` runs a function in every rank. It forks the ranks on this machine. Under torchrun (--no-python), SLURM or
// Open MPI this process already is a rank, and the function runs in it. A rank reaches the others through its `World`.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fsdp/error.h"
#include "fsdp/movable.h"
#include "fsdp/reduce_op.h"
#include "fsdp/work.h"

namespace fsdp {

namespace world {
class State;
}

// A group of ranks, as seen by one of them. A cheap handle: copies share one group.
//
// All ranks of the group call the collectives below in the same order, each from one thread. A wait that exceeds the
// world's timeout throws an `Error` that names the missing rank. After a failure every later call fails, too. If one
// rank is in such a call while another trains, both throw within seconds an `Error` that names both. If the ranks'
// arguments differ, all throw an `Error` that names both, and the world can be used further.
//
// Tensors are dense, of any strides and any dtype, and may be empty. They are on the CPU or on `device()`, and have at
// most 12 dimensions. Nothing is recorded for autograd (collectives.h has calls that are). docs/collectives.md has a
// picture of each call, and its cost.
class World {
 public:
  int rank() const;        // 0 <= rank() < size()
  int size() const;        // ranks in this group
  int local_rank() const;  // among the ranks of this host
  int local_size() const;  // ranks of this host
  // How often the job was started again after a failure, by `launch` or by torchrun.
  int restarts() const;
  // Where this rank computes: the CPU or its GPU. Move a module there before sharding it: `module->to(world.device())`.
  // See LaunchOptions::backend.
  torch::Device device() const;

  // Returns when all ranks of the group have called it.
  void barrier();
  // The sum (or as `op` says) of all ranks' tensors, in place, in rank order: the same bits on every rank. Same shape
  // and dtype everywhere.
  void all_reduce_(torch::Tensor& tensor, ReduceOp op = ReduceOp::Sum);
  // all_reduce_ on the root alone. The other ranks' tensors keep their values.
  void reduce_(torch::Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::Sum);
  // This rank's part of the sum: [d0 / size(), ...] of [d0, ...]. Same shape and dtype everywhere; d0 is a multiple of
  // size().
  torch::Tensor reduce_scatter(const torch::Tensor& tensor, ReduceOp op = ReduceOp::Sum);
  // Copies the source's values to all ranks, in place. Same shape and dtype everywhere.
  void broadcast_(torch::Tensor& tensor, int source = 0);
  // This rank's tensor of the source's list, which has one for each rank, of any shapes and dtypes, all on one device.
  // Other ranks pass {}.
  torch::Tensor scatter(const std::vector<torch::Tensor>& tensors, int source = 0);
  // Every rank's tensor, in rank order. Same shape and dtype everywhere.
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
  // all_gather on the root alone. Other ranks get an empty list.
  std::vector<torch::Tensor> gather(const torch::Tensor& tensor, int root = 0);
  // `tensors[r]` goes to rank r. Returns the tensors that came, by rank. Any shapes and dtypes, all on one device.
  std::vector<torch::Tensor> all_to_all(const std::vector<torch::Tensor>& tensors);

  // A tensor from this rank to another one, which receives it into one of the same shape and dtype. Messages match by
  // tag, 0 to 32767, and in order among equal tags. `send` may wait until the other rank receives, so two ranks that
  // send to each other use `send_async`. If shape or dtype differ, the receiver throws an `Error`, and the world cannot
  // be used further.
  void send(const torch::Tensor& tensor, int peer, int tag = 0);
  // The other end of `send`.
  void receive_(torch::Tensor& tensor, int peer, int tag = 0);

  // all_reduce_ without the wait. Until Work::wait has returned, the tensor must not be used. All ranks begin this call
  // and the next one in the same order. They run on a thread of their own. The first one connects the ranks for it, and
  // all ranks make it at the same place among the collectives above; later ones are in no order with these.
  Work all_reduce_async_(torch::Tensor& tensor, ReduceOp op = ReduceOp::Sum);
  // broadcast_ without the wait.
  Work broadcast_async_(torch::Tensor& tensor, int source = 0);
  // send without the wait. Until Work::wait has returned, the tensor must not be changed.
  Work send_async(const torch::Tensor& tensor, int peer, int tag = 0);
  // receive_ without the wait. Until Work::wait has returned, the tensor must not be used.
  Work receive_async_(torch::Tensor& tensor, int peer, int tag = 0);

  // The ranks with the same color, in rank order. A collective: every rank of this group calls it.
  World split(int color) const;

  // For the rest of the library.
  explicit World(std::shared_ptr<world::State> state) : state_(std::move(state)) {}
  // For the rest of the library.
  const std::shared_ptr<world::State>& state() const { return state_.get(); }

 private:
  detail::Movable<"World", std::shared_ptr<world::State>> state_;
};

// How a job of forked ranks failed.
struct JobFailure {
  int ranks = 1;     // ranks of the job
  int lost = 1;      // ranks that failed by themselves, not because another was missing
  int code = 1;      // as `launch` would return it
  int restarts = 0;  // of the job so far
};

// Options of `launch`.
struct LaunchOptions {
  int ranks = 1;  // without a launcher: on this machine
  // - "shm": on the CPU, by shared memory, on one host.
  // - "gloo": on the CPU, by Gloo.
  // - "hosts": on the CPU, by shared memory within each host and Gloo between hosts. All hosts have the same number of
  //   ranks, numbered host by host.
  // - "nccl": a GPU per rank, numbered by local rank modulo the host's GPUs.
  // - "auto", with a GPU: nccl, or shared memory if ranks share one GPU (docs/cuda.md).
  // - "auto", without: shm on one host. On several hosts it is hosts if they qualify and have more than one rank each,
  //   otherwise gloo.
  std::string backend = "auto";
  // The limit of every wait for another rank, at most a year. Time in which this rank was stopped (SIGSTOP), alone or
  // with the job, does not count.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  int max_restarts = 0;      // whole-job restarts after a rank failed
  bool plain_rank0 = false;  // rank 0 writes to the terminal itself, unprefixed
  // Replaces max_restarts. The launching process calls it after a failure. It returns the number of ranks of the new
  // job; 0: no restart.
  std::function<int(const JobFailure&)> restart_with = nullptr;
  // Keeps shards and optimizer state in memory of this process, so that restarted ranks continue with the broken step
  // (hot_restart.h). On the CPU, or with Options::cpu_offload. Not under torchrun, SLURM or Open MPI.
  bool hot_restart = false;
};

// Runs `body` in every rank and returns the exit code. It is 0 if all ranks succeeded, 2 for invalid options, and 130
// after Ctrl-C. Otherwise it is the code of the first rank that failed (128 + signal if it was killed).
//
// With no launcher in the environment and more than one rank, the ranks are forked. Their output is prefixed by rank,
// and the death of one ends the others. One rank runs in this process. LibTorch would hang in a fork of a process with
// threads, so that throws `Error`: call `launch` before anything starts a thread. Unless OMP_NUM_THREADS is set, the
// ranks share the machine's cores evenly. A signal (SIGINT, SIGTERM, or SIGHUP if it is not ignored) ends all ranks by
// SIGTERM; a second signal, over a second later, kills them. SIGUSR1 and SIGUSR2 are passed on to ranks with a handler
// for them; if no rank has one, they end the job. If the reader of the output stops reading, only the ranks block.
//
// A forked rank reads /dev/null as its standard input. It ends without handlers of atexit() and without destructors of
// global objects; these run in the launching process. If a rank calls exit(0) and others then wait for it, the job
// fails and names that rank. If this machine's limits do not allow so many ranks, `launch` fails before it forks any.
//
// `launch` opens /dev/null in place of closed descriptors 0, 1 and 2. While forked ranks run, this process does not
// ignore SIGCHLD. The ranks inherit its signal mask and dispositions from before. If they block SIGTERM, SIGKILL ends
// them three seconds after the signal. With one rank in this process, signals stay as they are.
//
// With `max_restarts` or `restart_with` a single rank is forked, too, so that it can be restarted. If jobs repeatedly
// fail within ten seconds, each restart waits twice as long, at most ten seconds.
//
// Under a launcher a process may call `launch` repeatedly, with the same ranks. The first call connects them.
int launch(const LaunchOptions& options, const std::function<void(World&)>& body);

}  // namespace fsdp
