#include "collectives/wire.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "collectives/divergence.h"

namespace fsdp::collectives {

Wire::Wire(std::unique_ptr<Transport> transport, std::unique_ptr<StatusBoard> board, std::vector<int> names,
           std::shared_ptr<WorldCalls> calls, const WorldCalls::Place& place)
    : transport_(std::move(transport)), names_(std::move(names)) {
  if (names_.empty()) {
    names_.resize(size());
    std::iota(names_.begin(), names_.end(), 0);
  }
  if (board) watchdog_.emplace(std::move(board), rank(), names_, std::move(calls), place);
}

void Wire::begins(std::string operation, Among among) {
  if (watchdog_) watchdog_->begins(std::move(operation), among);
}

void Wire::note_call(const WorldCall* call) {
  if (watchdog_) watchdog_->note_call(call);
}

void Wire::wait_all(Messages& messages) {
  {
    const WaitScope waiting(*this, messages);
    for (auto& message : messages) message->wait();
  }
  messages.clear();
}

bool Wire::wait_unless_stalled(Messages& messages, const std::vector<int>& senders) {
  while (!messages.empty()) {
    const size_t place = messages.size() - 1;
    const WaitScope waiting(*this, {&messages.back(), 1}, senders[place]);
    try {
      messages.back()->wait();
    } catch (const TransportFailure&) {
      if (!watchdog_ || !watchdog_->gave_up()) throw;
      return false;
    }
    messages.pop_back();
  }
  return true;
}

std::exception_ptr Wire::explain(const std::string& prefix, const char* operation, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const TransportFailure& lost) {
    return explain_transport(fmt::format("{}{}: ", prefix, operation), lost);
  } catch (const std::exception& own) {
    tell({name_of(rank()), own.what()});
    return failure;
  }
}

std::exception_ptr Wire::explain_transport(const std::string& start, const TransportFailure& failure) {
  const std::optional<Diagnosis> diagnosis = watchdog_ ? watchdog_->explain(failure.peer()) : std::nullopt;
  const std::string remedy = watchdog_ ? remedy_for_call(watchdog_->last_operation()) : "";
  const std::string lost = failure.what() + (remedy.empty() ? "" : ". " + remedy);
  const bool diverged = diagnosis && !diagnosis->cause;
  // The same text on every rank that diverged: it names the calls of both.
  const std::string message = (diverged ? message_prefix() : start) + (diagnosis ? diagnosis->text : lost);
  tell(diagnosis && diagnosis->cause ? *diagnosis->cause : Failure{name_of(rank()), message, !diverged});
  return diverged ? std::make_exception_ptr(Error(message)) : std::make_exception_ptr(PeerLost(message));
}

void Wire::tell(Failure failure) {
  if (watchdog_) watchdog_->fails(std::move(failure));
}

}  // namespace fsdp::collectives
