#include "interpose/backward_graph.h"

#include <algorithm>

namespace fsdp::interpose {

using torch::autograd::Node;

BackwardGraph::BackwardGraph(const torch::autograd::edge_list& roots) {
  for (const torch::autograd::Edge& root : roots) {
    if (!uses_.contains(root.function.get())) add_all_behind(root.function.get());
    uses_[root.function.get()].push_back({nullptr, 0});
  }
}

// Without recursion: a graph may be deep.
void BackwardGraph::add_all_behind(Node* root) {
  struct Open {
    Node* node;
    size_t edge;  // the next to look at
  };
  std::vector<Open> open{{root, 0}};
  uses_.try_emplace(root);
  while (!open.empty()) {
    auto& [node, edge] = open.back();
    if (edge == node->num_outputs()) {
      nodes_.push_back(node);
      open.pop_back();
      continue;
    }
    Node* const next = node->next_edge(edge).function.get();
    const Use use{node, edge++};
    if (next == nullptr) continue;
    const auto [uses, is_new] = uses_.try_emplace(next);
    uses->second.push_back(use);
    if (is_new) open.push_back({next, 0});
  }
}

uint64_t BackwardGraph::last_user(Node* node) const {
  uint64_t last = UINT64_MAX;
  for (const Use& use : uses(node)) {
    if (use.user != nullptr) last = std::min(last, use.user->sequence_nr());
  }
  return last;
}

}  // namespace fsdp::interpose
