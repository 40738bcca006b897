// Goes through a schedule until every rank is at its end, or none can go on. A send waits until the receiving rank has
// come to its receive, as over a network that buffers nothing.
#include <algorithm>

#include "stages/checks.h"
#include "stages/pass_inputs.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

class ProgressCheck {
 public:
  explicit ProgressCheck(const StageSchedule& schedule)
      : schedule_(schedule), inputs_(schedule.stages(), schedule.micro_batches), next_(schedule.ranks.size(), 0) {}

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < schedule_.rank_count(); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    for (int rank = 0; rank < schedule_.rank_count(); ++rank) {
      if (!at_end(rank)) refuse_deadlock(rank);
    }
  }

 private:
  bool at_end(int rank) const { return next_[rank] == schedule_.ranks[rank].size(); }
  const StageAction& head(int rank) const { return schedule_.at({rank, next_[rank]}); }

  bool advance(int rank) {
    if (at_end(rank)) return false;
    const StageAction& action = head(rank);
    if (is_receive(action.kind)) return false;  // the sender moves both
    if (is_send(action.kind)) {
      const StageAction receive = other_end(action);
      const int peer = schedule_.rank_of(receive.stage);
      if (at_end(peer) || head(peer) != receive) return false;
      ++next_[peer];
    }
    if (is_pass(action.kind)) {
      for (const StageAction& pass : together(schedule_.ranks[rank], next_[rank])) {
        if (!inputs_.has(pass)) return false;
      }
      inputs_.deliver(action, 0);
    }
    ++next_[rank];
    return true;
  }

  // The action for which the rank's next one waits.
  ActionPlace awaited(int rank) const {
    if (is_message(head(rank).kind)) return place_of(other_end(head(rank)));
    const auto passes = together(schedule_.ranks[rank], next_[rank]);
    StageAction needed = *std::ranges::find_if(passes, [&](const StageAction& pass) { return !inputs_.has(pass); });
    if (needed.kind == Kind::Forward) {
      --needed.stage;
    } else if (++needed.stage == schedule_.stages()) {
      needed = {.kind = Kind::Forward, .stage = needed.stage - 1, .micro_batch = needed.micro_batch};
    }
    return place_of(needed);
  }
  // A backward may be whole here and divided there.
  ActionPlace place_of(const StageAction& action) const {
    const int rank = schedule_.rank_of(action.stage);
    const auto found = std::ranges::find_if(schedule_.ranks[rank], [&](const StageAction& other) {
      const bool alike =
          other.kind == action.kind || (makes_input_gradient(other.kind) && makes_input_gradient(action.kind));
      return alike && other.stage == action.stage && other.micro_batch == action.micro_batch;
    });
    return {rank, static_cast<size_t>(found - schedule_.ranks[rank].begin())};
  }

  [[noreturn]] void refuse_deadlock(int rank) const {
    for (size_t i = 0; i < next_.size(); ++i) rank = awaited(rank).rank;  // to one of the ranks that wait in a ring
    std::string problem = "deadlock, expected every rank to reach its end";
    int waiting = rank;
    do {
      const ActionPlace place = awaited(waiting);
      problem +=
          fmt::format("\n  rank {}, position {}: {} waits for {} of rank {}, position {}", waiting, next_[waiting],
                      to_string(head(waiting)), to_string(schedule_.at(place)), place.rank, place.position);
      waiting = place.rank;
    } while (waiting != rank);
    refuse(schedule_, {rank, next_[rank]}, "{}", problem);
  }

  const StageSchedule& schedule_;
  PassInputs inputs_;
  std::vector<size_t> next_;  // by rank: the position of its next action
};

}  // namespace

void check_progress(const StageSchedule& schedule) { ProgressCheck(schedule).run(); }

}  // namespace fsdp::stages
