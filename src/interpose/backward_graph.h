// The graph of a backward as a table: its nodes, and the edges that lead to each.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace fsdp::interpose {

// A snapshot. The owners of the roots keep the nodes alive, and must outlive it.
class BackwardGraph {
 public:
  // An edge to a node: the number `edge` of `user`. A null user: the backward begins at the node.
  struct Use {
    torch::autograd::Node* user;
    size_t edge;
  };

  // All that a backward from these roots may reach.
  explicit BackwardGraph(const torch::autograd::edge_list& roots);

  // Each comes after the nodes that it leads to.
  const std::vector<torch::autograd::Node*>& nodes() const { return nodes_; }
  const std::vector<Use>& uses(torch::autograd::Node* node) const { return uses_.at(node); }
  // The lowest number among the nodes that lead to this one: it runs last of them.
  uint64_t last_user(torch::autograd::Node* node) const;

 private:
  void add_all_behind(torch::autograd::Node* root);

  std::vector<torch::autograd::Node*> nodes_;
  std::unordered_map<torch::autograd::Node*, std::vector<Use>> uses_;
};

}  // namespace fsdp::interpose
