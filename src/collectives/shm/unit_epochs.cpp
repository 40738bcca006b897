#include "collectives/shm/unit_epochs.h"

#include <algorithm>
#include <utility>

namespace fsdp::collectives::shm {

UnitEpochs::UnitEpochs(Ranks& ranks, std::vector<UnitMember> members, std::vector<int> sharers, const std::string& unit)
    : ranks_(&ranks),
      members_(std::move(members)),
      sharers_(std::move(sharers)),
      read_purpose_("gathers unit " + unit),
      write_purpose_("is about to write unit " + unit),
      counters_(*members_[ranks.rank()].control) {}

void UnitEpochs::begin_write() {
  end_reads();
  ranks_->wait(sharers_, write_purpose_, [this](int rank) { return has_entered(rank); });
  has_ended_reads_ = false;
}

bool UnitEpochs::try_begin_write() {
  end_reads();
  has_ended_reads_ = !std::all_of(sharers_.begin(), sharers_.end(), [this](int rank) { return has_entered(rank); });
  return !has_ended_reads_;
}

void UnitEpochs::end_reads() {
  if (std::exchange(has_ended_reads_, true)) return;
  counters_.enter();
  ranks_->ring();
}

void UnitEpochs::publish() {
  counters_.publish();
  ranks_->ring();
}

void UnitEpochs::wait_published(const std::function<void(int rank)>& published) {
  ranks_->wait(sharers_, read_purpose_, [&](int rank) {
    if (!counters_.has_published(*members_[rank].control)) return false;
    if (published) published(rank);
    return true;
  });
}

}  // namespace fsdp::collectives::shm
