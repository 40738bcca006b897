// Each result that a stage of another rank needs is sent and received, in one order.
#include <map>

#include "stages/checks.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

// Messages from one rank to another, by the receiving end, in the order of one of the two ranks.
struct MessageList {
  std::vector<StageAction> receives;
  std::vector<ActionPlace> places;
};
using MessageLists = std::map<std::pair<int, int>, MessageList>;  // by sending and receiving rank

class MessageCheck {
 public:
  MessageCheck(const StageSchedule& schedule, const ActionPlaces& places) : schedule_(schedule), places_(places) {}

  void run() {
    for (int rank = 0; rank < schedule_.rank_count(); ++rank) {
      for (size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
        if (is_message(schedule_.at({rank, i}).kind)) note({rank, i});
      }
    }
    for (int stage = 0; stage + 1 < schedule_.stages(); ++stage) {
      if (schedule_.rank_of(stage) == schedule_.rank_of(stage + 1)) continue;
      for (int micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch) {
        check({.kind = Kind::SendForward, .stage = stage, .micro_batch = micro_batch});
        check({.kind = Kind::SendBackward, .stage = stage + 1, .micro_batch = micro_batch});
      }
    }
    compare_orders();
  }

 private:
  void note(ActionPlace place) {
    const StageAction& action = schedule_.at(place);
    const StageAction other = other_end(action);
    if (other.stage < 0 || other.stage >= schedule_.stages())
      refuse(schedule_, place, "there is no stage at the other end, expected no message");
    const int peer = schedule_.rank_of(other.stage);
    if (peer == place.rank)
      refuse(schedule_, place, "stage {} lies on this rank too, expected no message", other.stage);
    MessageList& list = is_send(action.kind) ? sent_[{place.rank, peer}] : received_[{peer, place.rank}];
    list.receives.push_back(is_send(action.kind) ? other : action);
    list.places.push_back(place);
  }

  // The send follows the pass whose result it sends; the receive comes before the pass that needs it.
  void check(const StageAction& send) const {
    const StageAction receive = other_end(send);
    const ActionPlace& sent = find(send);
    const ActionPlace& received = find(receive);
    const ActionPlace& source = pass_of(send);
    const ActionPlace& use = pass_of(receive);
    if (source.position > sent.position)
      refuse(schedule_, sent, "expected the pass whose result it sends before it, found it at position {}",
             source.position);
    if (received.position > use.position)
      refuse(schedule_, use, "expected {} before it, found it at position {}", to_string(receive), received.position);
  }

  const ActionPlace& find(const StageAction& action) const {
    const ActionPlace* place = places_.find(action.kind, action.stage, action.micro_batch);
    if (place == nullptr)
      refuse(schedule_, schedule_.end_of(schedule_.rank_of(action.stage)), "{} is missing, expected it for rank {}",
             to_string(action), schedule_.rank_of(other_end(action).stage));
    return *place;
  }
  // The pass that makes the result of a send, or uses that of a receive.
  const ActionPlace& pass_of(const StageAction& message) const {
    const bool forward = message.kind == Kind::SendForward || message.kind == Kind::ReceiveForward;
    return forward ? *places_.find(Kind::Forward, message.stage, message.micro_batch)
                   : *places_.find_backward(message.stage, message.micro_batch);
  }

  void compare_orders() const {
    for (const auto& [ranks, received] : received_) {
      const MessageList& sent = sent_.at(ranks);
      for (size_t i = 0; i < received.receives.size(); ++i) {
        if (received.receives[i] != sent.receives[i])
          refuse(schedule_, received.places[i], "expected {} first, because rank {} sends it first, at position {}",
                 to_string(sent.receives[i]), ranks.first, sent.places[i].position);
      }
    }
  }

  const StageSchedule& schedule_;
  const ActionPlaces& places_;
  MessageLists sent_, received_;
};

}  // namespace

void check_messages(const StageSchedule& schedule, const ActionPlaces& places) { MessageCheck(schedule, places).run(); }

}  // namespace fsdp::stages
