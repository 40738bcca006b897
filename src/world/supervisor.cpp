#include "world/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "files/wrapped.h"

namespace fsdp::world {

namespace {

using std::chrono::milliseconds;

// After a failure: for the others to notice and say so, and then to end when asked to.
constexpr milliseconds kReportTime{1000};
constexpr milliseconds kTerminateTime{1500};
// After an interruption, for ranks that have no handler and only have to die. Ranks that save their work are waited
// for: a step or a save may take long, and an impatient user interrupts again.
constexpr milliseconds kInterruptTime{3000};
// For who reads the output of ranks that have ended, to take the next of it: after a success, and otherwise.
constexpr milliseconds kOutputTime{300000};
constexpr milliseconds kEndedOutputTime{3000};
// After a kill, for ranks that are in the midst of an update, so that all have its step whole.
constexpr milliseconds kUpdateTime{60000};
// Between two looks whether what ranks hold is whole.
constexpr milliseconds kHeldLook{5};
// Signals within it ask for one thing.
constexpr milliseconds kSameInterruptTime{1000};

bool is_handled_here(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

bool hides_ends(const struct sigaction& of_children) {
  return of_children.sa_handler == SIG_IGN || (of_children.sa_flags & SA_NOCLDWAIT) != 0;
}

}  // namespace

Supervisor::Supervisor(RankErrors& errors, const memory::HeldMemory* held) : errors_(errors), held_(held) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&mask, number);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler == SIG_IGN) sigdelset(&mask, SIGHUP);
  sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &previous_pipe_action_);
  // If SIGCHLD is ignored, as a parent may have left it, the system does not report how a rank ended.
  sigaction(SIGCHLD, nullptr, &previous_child_action_);
  struct sigaction tell {};
  tell.sa_handler = SIG_DFL;
  if (hides_ends(previous_child_action_)) sigaction(SIGCHLD, &tell, nullptr);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

Supervisor::~Supervisor() {
  kill_all(ranks_);
  ranks_.clear();
  if (signals_ >= 0) close(signals_);
  restore_signals();
  for (int number : kept_) raise(number);
}

void Supervisor::restore_signals() {
  sigaction(SIGPIPE, &previous_pipe_action_, nullptr);
  sigaction(SIGCHLD, &previous_child_action_, nullptr);
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

JobEnding Supervisor::run(int ranks, bool plain_rank0, const std::function<int(int rank)>& run) {
  start(ranks, plain_rank0, run);
  while (anything_running()) {
    wait_for_events();
    pass_output_on();
    read_signals();
    reap();
    print_errors();
    advance();
  }
  pass_on_the_rest();
  JobEnding ended = ending();
  ended.output_error = streams_->output.error();
  return ended;
}

void Supervisor::start(int ranks, bool plain_rank0, const std::function<int(int rank)>& run) {
  for (int rank = 0; rank < ranks; ++rank) {
    OutputStreams* streams = rank == 0 && plain_rank0 ? nullptr : &*streams_;
    ranks_.push_back(std::make_unique<RankProcess>(
        rank, streams, [this] { become_rank(); }, [&run, rank] { return run(rank); }));
  }
}

void Supervisor::become_rank() {
  close(signals_);
  for (auto& other : ranks_) other->forget();
  ranks_.clear();
  streams_.reset();
  restore_signals();
}

bool Supervisor::anything_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->running(); });
}

std::vector<OutputPipe*> Supervisor::pipes() const {
  std::vector<OutputPipe*> pipes;
  for (const auto& rank : ranks_)
    for (OutputPipe* pipe : {rank->standard_output(), rank->standard_error()})
      if (pipe && pipe->reader() >= 0) pipes.push_back(pipe);
  return pipes;
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> events{{signals_, POLLIN, 0}, {errors_.news(), POLLIN, 0}};
  for (auto& rank : ranks_)
    if (rank->running()) events.push_back({rank->handle(), POLLIN, 0});
  for (OutputPipe* pipe : pipes())
    if (pipe->wants_to_read()) events.push_back({pipe->reader(), POLLIN, 0});
  for (OutputStream* stream : {&streams_->output, &streams_->error})
    if (!stream->is_empty()) events.push_back({stream->descriptor(), POLLOUT, 0});
  milliseconds until_look = patience_ ? patience_->until_next_look() : milliseconds(-1);
  if (held_ != nullptr && phase_ == Phase::Reporting) until_look = kHeldLook;
  if (const auto next = error_report_.until_next_look(); next && (until_look.count() < 0 || *next < until_look))
    until_look = *next;
  poll(events.data(), events.size(), static_cast<int>(until_look.count()));
}

void Supervisor::pass_output_on() {
  streams_->output.flush();
  streams_->error.flush();
  for (OutputPipe* pipe : pipes()) pipe->drain();
}

// After the output that came before them.
void Supervisor::print_errors() {
  const std::optional<std::string> text =
      error_report_.due([this](int rank) { return ranks_[static_cast<size_t>(rank)]->running(); });
  if (!text) return;
  streams_->error.add(files::shown_on(STDERR_FILENO, *text));
  error_report_.note_printed();
}

// Processes that a rank started may hold the pipes open; they are not waited for. A reader that takes nothing is waited
// for until patience is over, or a signal asks to end.
void Supervisor::pass_on_the_rest() {
  for (OutputPipe* pipe : pipes()) pipe->expect_no_more();
  const milliseconds allowed = first_failed_ || interrupted_by_ ? kEndedOutputTime : kOutputTime;
  const auto written = [this] { return streams_->output.written_bytes() + streams_->error.written_bytes(); };
  enter(Phase::Ended, allowed);
  for (int64_t before = written(); phase_ == Phase::Ended && !patience_->is_over();) {
    pass_output_on();
    if (pipes().empty() && streams_->output.is_empty() && streams_->error.is_empty()) return;
    if (before != written()) patience_.emplace(allowed);
    before = written();
    wait_for_events();
    read_signals();
  }
}

void Supervisor::read_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto number = static_cast<int>(info.ssi_signo);
    const bool is_for_handlers = number == SIGUSR1 || number == SIGUSR2;
    if (!is_for_handlers || !(anybody_handles(number) || is_handled_here(number))) {
      interrupt(number);
    } else if (!pass_on(number)) {
      kept_.push_back(number);
    }
  }
}

bool Supervisor::anybody_handles(int number) const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [&](const auto& rank) { return rank->running() && rank->handles(number); });
}

// It would kill a rank that has no handler. A rank that blocks the signal, as each does while it starts, takes it
// later.
bool Supervisor::pass_on(int number) {
  bool passed = false;
  for (auto& rank : ranks_) {
    if (!rank->running() || !rank->catches(number)) continue;
    rank->signal(number);
    passed = true;
  }
  return passed;
}

// Who asks a whole group of processes, as a terminal does, may ask this one by itself as well, at once. A later signal
// is deliberate.
void Supervisor::interrupt(int number) {
  if (interrupted_by_) {
    if (Clock::now() - interrupted_at_ > kSameInterruptTime) enter(Phase::Killing, milliseconds(0));
    return;
  }
  interrupted_by_ = number;
  interrupted_at_ = Clock::now();
  const bool handled = anybody_handles(SIGTERM);
  enter(Phase::Terminating, kInterruptTime);
  if (handled) patience_.reset();
}

void Supervisor::reap() {
  for (auto& rank : ranks_) {
    if (!rank->running() || !rank->reap()) continue;
    if (has_failed(*rank)) note_failure(*rank);
    if (!first_left_ && left_early(*rank)) first_left_ = rank.get();
  }
}

bool Supervisor::has_failed(const RankProcess& rank) const {
  return rank.ending()->failed() && !(rank.ending()->taken && errors_.has_returned(rank.rank()));
}

bool Supervisor::left_early(const RankProcess& rank) const {
  return !rank.ending()->failed() && !errors_.has_returned(rank.rank());
}

// A rank that only misses another may be found before the missing rank: both fail within a moment.
void Supervisor::note_failure(RankProcess& rank) {
  if (phase_ != Phase::Running && phase_ != Phase::Reporting) return;
  if (!only_missed_a_peer(rank)) ++lost_;
  if (!first_failed_ || (only_missed_a_peer(*first_failed_) && !only_missed_a_peer(rank))) first_failed_ = &rank;
  if (phase_ == Phase::Running) enter(Phase::Reporting, kReportTime);
}

bool Supervisor::only_missed_a_peer(const RankProcess& rank) const {
  return rank.ending()->signal == 0 && errors_.read(rank.rank()).origin == Origin::Peer;
}

void Supervisor::enter(Phase phase, milliseconds duration) {
  phase_ = phase;
  patience_.emplace(duration);
  if (phase == Phase::Reporting) update_patience_.emplace(kUpdateTime);
  if (phase == Phase::Reporting || phase == Phase::Terminating) {
    streams_->output.writers_end();
    streams_->error.writers_end();
  }
  if (phase == Phase::Terminating) signal_all(SIGTERM);
  if (phase == Phase::Killing) {
    signal_all(SIGKILL);
    patience_.reset();
  }
}

// After a kill, which needs no explanation, the others may be killed as soon as what they hold is whole.
bool Supervisor::may_go_on_from_memory() const { return held_ != nullptr && first_failed_->ending()->signal != 0; }

bool Supervisor::nothing_is_lost() const {
  return may_go_on_from_memory() && std::ranges::all_of(ranks_, [this](const auto& rank) {
           return !rank->running() || held_->is_whole(rank->rank());
         });
}

bool Supervisor::may_become_whole() const {
  return may_go_on_from_memory() && std::ranges::all_of(ranks_, [this](const auto& rank) {
           return rank->running() || held_->is_whole(rank->rank());
         });
}

void Supervisor::advance() {
  if (phase_ == Phase::Reporting && nothing_is_lost()) return enter(Phase::Killing, milliseconds(0));
  if (phase_ == Phase::Reporting && may_become_whole() && !update_patience_->is_over()) return;
  if (!patience_ || !patience_->is_over()) return;
  if (phase_ == Phase::Reporting) {
    enter(Phase::Terminating, kTerminateTime);
  } else if (phase_ == Phase::Terminating) {
    enter(Phase::Killing, milliseconds(0));
  }
}

void Supervisor::signal_all(int number) {
  for (auto& rank : ranks_) rank->signal(number);
}

const RankProcess* Supervisor::returned_and_missed() const {
  if (!only_missed_a_peer(*first_failed_)) return nullptr;
  const std::string message = errors_.read(first_failed_->rank()).message;
  const auto found = std::ranges::find_if(ranks_, [&](const auto& rank) {
    return errors_.has_returned(rank->rank()) &&
           message.find(fmt::format("rank {} ", rank->rank())) != std::string::npos;
  });
  return found == ranks_.end() ? nullptr : found->get();
}

// A rank that leaves early is no failure by itself: a program may end all its ranks so.
std::string Supervisor::describe_failure() const {
  if (first_left_ && only_missed_a_peer(*first_failed_))
    return fmt::format(
        "rank {} called exit(0) before its function returned, and other ranks waited for it; they were ended. Return "
        "from the function, after as many steps as the others.",
        first_left_->rank());
  if (const RankProcess* rank = returned_and_missed())
    return fmt::format(
        "rank {} returned from its function, and other ranks waited for it; they were ended. All ranks must make the "
        "same calls and return together.",
        rank->rank());
  return fmt::format("rank {} {}; the other ranks were ended.", first_failed_->rank(),
                     first_failed_->ending()->describe());
}

JobEnding Supervisor::ending() const {
  if (interrupted_by_)
    return {128 + interrupted_by_, fmt::format("interrupted; all {} ranks ended.", ranks_.size()), true};
  if (first_failed_)
    return {first_failed_->ending()->code(), describe_failure(), false, std::max(1, lost_),
            first_failed_->ending()->signal != 0};
  return {};
}

}  // namespace fsdp::world
