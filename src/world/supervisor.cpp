#include "world/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "world/error_file.h"

namespace fsdp::world {

namespace {

using std::chrono::milliseconds;

// After a failure: for the others to notice and say so, and then to end when asked to.
constexpr milliseconds kReportTime{1000};
constexpr milliseconds kTerminateTime{1500};
// After an interruption: for ranks that have no handler and only have to die, and for those that save their work.
constexpr milliseconds kInterruptTime{3000};
constexpr milliseconds kHandledInterruptTime{30000};
// Signals within it ask for one thing.
constexpr milliseconds kSameInterruptTime{1000};

std::string without_prefix(const std::string& message, int rank, int ranks) {
  std::string prefix = fmt::format("[fsdp rank {}/{}] ", rank, ranks);
  return message.rfind(prefix, 0) == 0 ? message.substr(prefix.size()) : message;
}

}  // namespace

Supervisor::Supervisor(std::filesystem::path directory) : directory_(std::move(directory)) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &previous_pipe_action_);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

Supervisor::~Supervisor() {
  ranks_.clear();
  if (signals_ >= 0) close(signals_);
  restore_signals();
}

void Supervisor::restore_signals() {
  sigaction(SIGPIPE, &previous_pipe_action_, nullptr);
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

JobEnding Supervisor::run(int ranks, bool plain_rank0, const std::function<int(int rank)>& run) {
  start(ranks, plain_rank0, run);
  while (anything_running()) {
    wait_for_events();
    pass_output_on();
    read_signals();
    reap();
    advance();
  }
  // What a rank started may hold the pipes open for as long as it likes; nobody waits for that.
  for (auto& rank : ranks_)
    for (OutputPipe* pipe : {rank->standard_output(), rank->standard_error()})
      if (pipe) pipe->finish();
  return ending();
}

void Supervisor::start(int ranks, bool plain_rank0, const std::function<int(int rank)>& run) {
  for (int rank = 0; rank < ranks; ++rank) {
    auto style = rank == 0 && plain_rank0 ? OutputStyle::Plain : OutputStyle::Prefixed;
    ranks_.push_back(std::make_unique<RankProcess>(
        rank, style, [this] { become_rank(); }, [&run, rank] { return run(rank); }));
  }
}

void Supervisor::become_rank() {
  close(signals_);
  for (auto& other : ranks_) other->forget();
  ranks_.clear();
  restore_signals();
}

bool Supervisor::anything_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->running(); });
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> events{{signals_, POLLIN, 0}};
  for (auto& rank : ranks_) {
    if (rank->running()) events.push_back({rank->handle(), POLLIN, 0});
    for (OutputPipe* pipe : {rank->standard_output(), rank->standard_error()})
      if (pipe && pipe->reader() >= 0) events.push_back({pipe->reader(), POLLIN, 0});
  }
  int wait = -1;
  if (deadline_) {
    auto left = std::chrono::ceil<milliseconds>(*deadline_ - Clock::now());
    wait = static_cast<int>(std::max<milliseconds::rep>(0, left.count()));
  }
  poll(events.data(), events.size(), wait);
}

void Supervisor::pass_output_on() {
  for (auto& rank : ranks_)
    for (OutputPipe* pipe : {rank->standard_output(), rank->standard_error()})
      if (pipe) pipe->drain();
}

void Supervisor::read_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    interrupt(static_cast<int>(info.ssi_signo));
}

// Who asks a whole group of processes, as a terminal does, may ask this one by itself as well, at once. What comes
// later means it.
void Supervisor::interrupt(int number) {
  if (interrupted_by_) {
    if (Clock::now() - interrupted_at_ > kSameInterruptTime) enter(Phase::Killing, milliseconds(0));
    return;
  }
  interrupted_by_ = number;
  interrupted_at_ = Clock::now();
  bool handled = std::any_of(ranks_.begin(), ranks_.end(),
                             [](const auto& rank) { return rank->running() && rank->handles(SIGTERM); });
  enter(Phase::Terminating, handled ? kHandledInterruptTime : kInterruptTime);
}

void Supervisor::reap() {
  for (auto& rank : ranks_)
    if (rank->running() && rank->reap() && rank->ending()->failed()) note_failure(*rank);
}

// A rank that merely misses another may be found before the one that it misses: both notice within a moment.
void Supervisor::note_failure(RankProcess& rank) {
  if (phase_ != Phase::Running && phase_ != Phase::Reporting) return;
  if (!first_failed_ || (only_missed_a_peer(*first_failed_) && !only_missed_a_peer(rank))) first_failed_ = &rank;
  if (phase_ == Phase::Running) enter(Phase::Reporting, kReportTime);
}

bool Supervisor::only_missed_a_peer(const RankProcess& rank) const {
  return rank.ending()->signal == 0 && read_error(directory_, rank.rank()).origin == Origin::Peer;
}

void Supervisor::enter(Phase phase, milliseconds duration) {
  phase_ = phase;
  deadline_ = Clock::now() + duration;
  if (phase == Phase::Terminating) signal_all(SIGTERM);
  if (phase == Phase::Killing) {
    signal_all(SIGKILL);
    deadline_.reset();
  }
}

void Supervisor::advance() {
  if (!deadline_ || Clock::now() < *deadline_) return;
  if (phase_ == Phase::Reporting) {
    enter(Phase::Terminating, kTerminateTime);
  } else if (phase_ == Phase::Terminating) {
    enter(Phase::Killing, milliseconds(0));
  }
}

void Supervisor::signal_all(int number) {
  for (auto& rank : ranks_) rank->signal(number);
}

std::string Supervisor::describe_failure() const {
  int rank = first_failed_->rank();
  int ranks = static_cast<int>(ranks_.size());
  std::string text = fmt::format("rank {} {}", rank, first_failed_->ending()->describe());
  std::string cause = without_prefix(read_error(directory_, rank).message, rank, ranks);
  if (!cause.empty()) text += ": " + cause;
  if (text.back() == '.') text.pop_back();
  return text + "; the other ranks were ended.";
}

JobEnding Supervisor::ending() const {
  if (interrupted_by_)
    return {128 + interrupted_by_, fmt::format("interrupted; all {} ranks ended.", ranks_.size()), true};
  if (first_failed_) return {first_failed_->ending()->code(), describe_failure(), false};
  return {};
}

}  // namespace fsdp::world
