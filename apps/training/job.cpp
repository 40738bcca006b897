#include "training/job.h"

#include <fmt/format.h>
#include <fsdp/world.h>

#include <csignal>
#include <optional>

#include "console/units.h"
#include "run/problems.h"
#include "training/rank_offer.h"
#include "training/restart_policy.h"
#include "training/stop_request.h"

namespace trainer {

namespace {

// The job's next ranks go on in its folder, and where it has saved, from there, whatever it began from.
RunOptions options_after_failure(const RunOptions& given, const JobMemory& job) {
  RunOptions options = given;
  if (const std::string run = job.run.get(); !run.empty()) options.run = run;
  if (job.saved.is_set()) {
    options.resume = "auto";
    options.checkpoint.clear();
    options.no_strict = false;
  }
  return options;
}

bool is_preemption(int signal) { return signal == SIGTERM || signal == SIGUSR1; }

// `code` is `launch`'s: the launcher may have been asked as well as the ranks.
int exit_code(const JobMemory& job, int code) {
  if (job.refused.is_set() || job.has_bad_input(code)) return kUsageError;
  if (job.hopeless.is_set()) return 1;
  const int signal = job.signal.get();
  // While ranks start there is nothing to save: the run is as it was before.
  if (!job.trains.is_set() && is_preemption(code - 128)) return kGoOnLater;
  if (is_preemption(signal) && (code == 0 || is_preemption(code - 128))) return kGoOnLater;
  return code == 0 && signal != 0 ? 128 + signal : code;
}

}  // namespace

int run_job(const RunOptions& given, JobMemory& job,
            const std::function<void(const RunOptions& options, fsdp::World& world)>& rank) {
  RunOptions options = given;
  const bool runs_here = is_started_as_rank() || (given.ranks == 1 && given.restarts() == 0);
  if (!runs_here) end_as_ever();  // the launcher sees the signal: exit_code
  job.offers_ranks = !given.elastic.empty() && !is_started_as_rank();
  std::optional<RankOffer> offer;
  if (job.offers_ranks) offer.emplace();
  int64_t restarts = 0;
  const auto goes_on = [&] {
    ++job.attempt;
    options = options_after_failure(given, job);
    job.bad_input.clear();
    job.grows.clear();
    job.hangs.clear();
    job.trains.clear();
  };
  const auto ranks_after_failure = [&](const fsdp::JobFailure& failure) {
    if (!job.may_restart(failure.code)) return 0;
    const int64_t ranks = ranks_after({.ranks = failure.ranks, .lost = failure.lost, .restarts = restarts}, given);
    if (ranks == 0) return 0;
    ++restarts;
    goes_on();
    return static_cast<int>(ranks);
  };
  fsdp::LaunchOptions launch{
      .ranks = static_cast<int>(given.ranks), .timeout = std::chrono::seconds(given.timeout), .plain_rank0 = true};
  if (given.restarts() > 0) launch.restart_with = ranks_after_failure;
  launch.hot_restart = given.hot_restart;
  for (;;) {
    const int code = fsdp::launch(launch, [&](fsdp::World& world) { rank(options, world); });
    if (code != 0 || !job.grows.is_set()) return exit_code(job, code);
    offer->forget();
    goes_on();
  }
}

std::string attempt_text(const RunOptions& options, int ranks, int64_t attempt) {
  const std::string who =
      ranks == options.ranks ? counted(ranks, "rank") : fmt::format("{} of {} ranks", ranks, options.ranks);
  return fmt::format("the ranks were started again, {} so far: {}", counted(attempt, "time"), who);
}

}  // namespace trainer
