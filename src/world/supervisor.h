// Watches the ranks of one local job from start to end.
//
// Runs in the process that called `launch`, in its one thread, and touches nothing of LibTorch's. It passes the ranks'
// output and errors on, ends all of them when one fails or the user interrupts, and leaves no process behind. While it
// runs, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are blocked and read from a descriptor (but a SIGHUP that was
// ignored, as under nohup), SIGPIPE is ignored, and SIGCHLD is not. In the ranks, and when it is destroyed, all are as
// before. A SIGUSR1 or SIGUSR2 goes to the ranks that handle it, also if they block it while this process has a
// handler: they are starting. After their end it is kept for this process's own handler. It waits only for the ends of
// ranks: it serves signals and deaths even if its output is not read. Time in which the job was stopped as a whole does
// not count.
//
// It has so many functions because one loop serves output, signals, deaths and deadlines, and each event may change
// the phase of the job.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/patience.h"
#include "memory/held_memory.h"
#include "world/error_file.h"
#include "world/error_report.h"
#include "world/rank_process.h"

namespace fsdp::world {

// How a job ended.
struct JobEnding {
  int code = 0;
  std::string message;  // what there is to say of it, without the prefix; empty after a success
  bool interrupted = false;
  int lost = 0;          // ranks that failed by themselves
  bool killed = false;   // the first of them, by a signal
  int output_error = 0;  // for which output of the ranks was lost, as errno has it; 0: none was
};

class Supervisor {
 public:
  // `errors` is where the ranks leave the causes of their failures; `held`, where there is some, outlives them.
  explicit Supervisor(RankErrors& errors, const memory::HeldMemory* held = nullptr);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Forks `ranks` processes, each of which exits with what `run` returns for its number, and waits for all.
  JobEnding run(int ranks, bool plain_rank0, const std::function<int(int rank)>& run);

 private:
  using Clock = std::chrono::steady_clock;
  // Running: nothing went wrong. Reporting: a rank failed, and the others may say why they cannot go on. Terminating:
  // all were sent SIGTERM. Killing: SIGKILL. Ended: none is left, and their last output is passed on.
  enum class Phase { Running, Reporting, Terminating, Killing, Ended };

  void start(int ranks, bool plain_rank0, const std::function<int(int rank)>& run);
  void become_rank();  // in a forked rank: lets go of all that is the supervisor's
  void restore_signals();
  void wait_for_events();
  std::vector<OutputPipe*> pipes() const;
  void pass_output_on();
  void pass_on_the_rest();
  void print_errors();
  void read_signals();
  void reap();
  void note_failure(RankProcess& rank);
  bool only_missed_a_peer(const RankProcess& rank) const;
  bool has_failed(const RankProcess& rank) const;
  bool left_early(const RankProcess& rank) const;
  // The rank that the first failed one missed, because its function had returned; null: none.
  const RankProcess* returned_and_missed() const;
  void enter(Phase phase, std::chrono::milliseconds duration);
  void advance();
  bool may_go_on_from_memory() const;
  bool nothing_is_lost() const;
  // True if a rank that is in the midst of an update is all that is missing.
  bool may_become_whole() const;
  void signal_all(int number);
  void interrupt(int number);
  bool anybody_handles(int number) const;
  bool pass_on(int number);  // whether any rank has a handler for it
  bool anything_running() const;
  JobEnding ending() const;
  std::string describe_failure() const;

  RankErrors& errors_;
  ErrorReport error_report_{errors_};
  const memory::HeldMemory* held_;
  std::optional<OutputStreams> streams_{std::in_place};
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  Phase phase_ = Phase::Running;
  std::optional<Patience> patience_;         // with this phase
  std::optional<Patience> update_patience_;  // with ranks that are in the midst of an update
  RankProcess* first_failed_ = nullptr;      // and not for want of another
  RankProcess* first_left_ = nullptr;        // with exit code 0, before its function returned
  int lost_ = 0;                             // ranks that failed so
  int interrupted_by_ = 0;                   // the signal
  Clock::time_point interrupted_at_;
  std::vector<int> kept_;  // signals for handlers of this process, raised when it has its signals back
  sigset_t previous_mask_;
  struct sigaction previous_pipe_action_;
  struct sigaction previous_child_action_;
  int signals_ = -1;
};

}  // namespace fsdp::world
