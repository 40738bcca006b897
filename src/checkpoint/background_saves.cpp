#include "checkpoint/background_saves.h"

#include <torch/utils.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/rank_thread.h"
#include "base/unfinished_work.h"
#include "checkpoint/write_checkpoint.h"
#include "files/wrapped.h"
#include "memory/mapped_tensor.h"

namespace fsdp::checkpoint {

namespace {

// A thread that starts meanwhile gets no signals but those of its own faults: the others are for the thread that
// trains.
class SignalsForOthers {
 public:
  SignalsForOthers() {
    sigset_t signals;
    sigfillset(&signals);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&signals, own);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalsForOthers() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsForOthers(const SignalsForOthers&) = delete;
  SignalsForOthers& operator=(const SignalsForOthers&) = delete;

 private:
  sigset_t before_{};
};

double seconds_since(SaveUnderWay::Clock::time_point begin) {
  return std::chrono::duration<double>(SaveUnderWay::Clock::now() - begin).count();
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "it threw an object that is not a std::exception";
  }
}

}  // namespace

SaveUnderWay::SaveUnderWay(std::string what, Clock::time_point begin,
                           std::shared_ptr<engine::ShardReaders::Reading> reading)
    : what_(std::move(what)), begin_(begin), reading_(std::move(reading)) {}

bool SaveUnderWay::is_over() const {
  const std::lock_guard lock(mutex_);
  return state_ != State::UnderWay;
}

void SaveUnderWay::wait() {
  std::unique_lock lock(mutex_);
  over_.wait(lock, [this] { return state_ != State::UnderWay; });
  if (state_ == State::Committed) return;
  is_told_ = true;
  std::rethrow_exception(failure_);
}

double SaveUnderWay::seconds_paused() const {
  const double waited = reading_->seconds_waited_for();
  const std::lock_guard lock(mutex_);
  return seconds_of_call_ + waited;
}

double SaveUnderWay::seconds() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::UnderWay ? seconds_since(begin_) : seconds_;
}

void SaveUnderWay::call_returns() {
  const std::lock_guard lock(mutex_);
  seconds_of_call_ = seconds_since(begin_);
}

void SaveUnderWay::end(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  seconds_ = seconds_since(begin_);
  state_ = failure ? State::Failed : State::Committed;
  failure_ = std::move(failure);
  over_.notify_all();
}

std::string SaveUnderWay::wait_for_untold_failure() {
  std::unique_lock lock(mutex_);
  over_.wait(lock, [this] { return state_ != State::UnderWay; });
  if (state_ != State::Failed || std::exchange(is_told_, true)) return "";
  return fmt::format("{}warning: {} failed, and wait() was not called for its error: {}\n", message_prefix(), what_,
                     text_of(failure_));
}

BackgroundSaves::BackgroundSaves(const CheckpointRanks& ranks, std::atomic<int64_t>& copy_bytes)
    : ranks_(ranks.identity()), group_(ranks.new_host_group()), copy_bytes_(copy_bytes) {}

// NOLINTNEXTLINE(bugprone-exception-escape): a process without memory for the warning ends
BackgroundSaves::~BackgroundSaves() {
  finish();
  copy_bytes_ = 0;
}

std::shared_ptr<SaveUnderWay> BackgroundSaves::start(const SaveTarget& target, TakenState state,
                                                     SaveUnderWay::Clock::time_point begin,
                                                     std::shared_ptr<engine::ShardReaders::Reading> reading) {
  FSDP_INVARIANT(!current_, "a save was started while another is under way");
  current_ = std::make_shared<SaveUnderWay>(target.what, begin, std::move(reading));
  // Captures are destroyed in the reverse order.
  auto body = [unfinished = std::make_shared<UnfinishedWork>(), this, save = current_, target,
               state = std::make_shared<TakenState>(std::move(state))] { run(target, *state, save); };
  try {
    const SignalsForOthers masked;
    thread_ = std::thread(of_this_rank(body));
  } catch (const std::system_error&) {
    body();  // there is no thread to be had, and the other ranks wait for this one
  }
  current_->call_returns();
  return current_;
}

void BackgroundSaves::finish() {
  if (!current_) return;
  const std::string failure = current_->wait_for_untold_failure();
  if (thread_.joinable()) thread_.join();
  current_.reset();
  if (group_->rank() == 0) files::show_error(failure);
}

void BackgroundSaves::run(const SaveTarget& target, TakenState& state, const std::shared_ptr<SaveUnderWay>& save) {
  const torch::NoGradGuard no_grad;
  std::exception_ptr failure;
  try {
    stage(state, *save);
    const auto take = [&] {
      if (state.failure) std::rethrow_exception(state.failure);
      comes_to(Step::Write);
      return std::move(state.snapshot);
    };
    write_checkpoint(*group_, target, take, [&] {
      save->reading_->end();
      comes_to(Step::Commit);
    });
  } catch (...) {
    failure = std::current_exception();
  }
  save->reading_->end();
  save->end(failure);
  // The save of a model that outlives the process: there is no other place that finishes it.
  if (failure && group_->rank() == 0) tell_at_process_end([save] { return save->wait_for_untold_failure(); });
}

void BackgroundSaves::stage(TakenState& state, SaveUnderWay& save) try {
  comes_to(Step::Copy);
  std::vector<torch::Tensor*> shared;
  for (size_t i = 0; i < state.snapshot.tensors.size(); ++i) {
    if (!state.is_own[i]) shared.push_back(&state.snapshot.tensors[i].second);
  }
  const auto lies_in_file = [](const torch::Tensor* tensor) { return memory::pages_of(*tensor) != nullptr; };
  if (std::ranges::any_of(shared, lies_in_file)) return;
  try {
    staging_.copy(shared);
  } catch (const Error&) {
    return;  // there is no memory for it: the next change waits for the files
  }
  copy_bytes_ = static_cast<int64_t>(staging_.bytes());
  save.reading_->end();
} catch (...) {
  state.failure = std::current_exception();
}

BackgroundSaves& background_saves_of(engine::Model& model, const CheckpointRanks& ranks) {
  std::shared_ptr<void>& saves = model.saves();
  if (saves && !static_cast<BackgroundSaves*>(saves.get())->are_of(ranks)) saves.reset();
  if (!saves) saves = std::make_shared<BackgroundSaves>(ranks, model.save_copy_bytes());
  return *static_cast<BackgroundSaves*>(saves.get());
}

void finish_background_saves(engine::Model& model) {
  if (model.saves()) static_cast<BackgroundSaves*>(model.saves().get())->finish();
}

}  // namespace fsdp::checkpoint
