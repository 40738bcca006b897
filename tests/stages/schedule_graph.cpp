// The verdict on a schedule by its graph: an action is a node, and an edge leads to each action that has to come later.
// A send and its receive are one node, because they wait for each other.
#include <fmt/format.h>

#include <map>
#include <set>

#include "stages/support.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

class ScheduleGraph {
 public:
  explicit ScheduleGraph(const StageSchedule& schedule) : schedule_(schedule), with_messages_(has_messages(schedule)) {
    for (int rank = 0; rank < schedule.rank_count(); ++rank) {
      for (const StageAction& action : schedule.ranks[rank]) {
        complete_ &= texts_.insert(to_string(action)).second && schedule.rank_of(action.stage) == rank;
      }
    }
  }

  bool is_valid() {
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      std::string before;
      for (int i = 0; i < schedule_.micro_batches; ++i) {
        const std::string gradients = add_micro_batch(stage, i);
        if (i > 0) add_edge(before, gradients);
        before = gradients;
      }
    }
    for (const auto& actions : schedule_.ranks) {
      for (size_t i = 1; i < actions.size(); ++i) add_edge(node_of(actions[i - 1]), node_of(actions[i]));
    }
    return complete_ && used_ == texts_.size() && has_one_order_of_messages() && has_no_cycle();
  }

 private:
  // A message is called by its send.
  static std::string node_of(const StageAction& action) {
    return to_string(is_receive(action.kind) ? other_end(action) : action);
  }
  void use(const std::string& text) {
    complete_ &= texts_.contains(text);
    ++used_;
  }
  void add_edge(const std::string& from, const std::string& to) { edges_[from].insert(to), edges_[to]; }

  // Adds the passes and the messages that start from them. Returns the pass that adds gradients.
  std::string add_micro_batch(int stage, int i) {
    const std::string forward = fmt::format("{}F{}", stage, i), input = backward_of(stage, i);
    const std::string gradients = input.find('I') == std::string::npos ? input : fmt::format("{}W{}", stage, i);
    for (const std::string& text : std::set{forward, input, gradients}) use(text);
    add_edge(forward, input);
    if (gradients != input) add_edge(input, gradients);
    if (stage + 1 < schedule_.stages()) {
      add_result(forward, fmt::format("{}F{}", stage + 1, i), "F", {stage, stage + 1}, i);
      add_result(backward_of(stage + 1, i), input, "B", {stage + 1, stage}, i);
    }
    return gradients;
  }
  std::string backward_of(int stage, int i) const {
    const std::string whole = fmt::format("{}B{}", stage, i);
    return texts_.contains(whole) ? whole : fmt::format("{}I{}", stage, i);
  }
  void add_result(const std::string& source, const std::string& use_of, const char* direction,
                  std::pair<int, int> stages, int i) {
    if (!with_messages_ || schedule_.rank_of(stages.first) == schedule_.rank_of(stages.second)) {
      add_edge(source, use_of);
      return;
    }
    const std::string send = fmt::format("{}SEND_{}{}", stages.first, direction, i);
    use(send);
    use(fmt::format("{}RECV_{}{}", stages.second, direction, i));
    add_edge(source, send);
    add_edge(send, use_of);
  }

  bool has_one_order_of_messages() const {
    std::map<std::pair<int, int>, std::vector<std::string>> sent, received;
    for (const auto& actions : schedule_.ranks) {
      for (const StageAction& action : actions) {
        if (!is_message(action.kind)) continue;
        const int rank = schedule_.rank_of(action.stage), peer = schedule_.rank_of(other_end(action).stage);
        (is_send(action.kind) ? sent[{rank, peer}] : received[{peer, rank}]).push_back(node_of(action));
      }
    }
    return sent == received;
  }
  // Takes nodes without edges to them away, until none is left.
  bool has_no_cycle() {
    std::map<std::string, int> incoming;
    for (const auto& [from, to] : edges_) {
      for (const std::string& node : to) ++incoming[node];
    }
    std::vector<std::string> free;
    for (const auto& [node, to] : edges_) {
      if (!incoming.contains(node)) free.push_back(node);
    }
    size_t taken = 0;
    for (; !free.empty(); ++taken) {
      const std::string node = free.back();
      free.pop_back();
      for (const std::string& next : edges_[node]) {
        if (--incoming[next] == 0) free.push_back(next);
      }
    }
    return taken == edges_.size();
  }

  const StageSchedule& schedule_;
  bool with_messages_;
  bool complete_ = true;         // every action is there, once and on its rank
  std::set<std::string> texts_;  // of all actions
  size_t used_ = 0;              // actions that a schedule needs
  std::map<std::string, std::set<std::string>> edges_;
};

}  // namespace

bool is_valid(const StageSchedule& schedule) { return ScheduleGraph(schedule).is_valid(); }

}  // namespace fsdp::stages
