#include "interpose/later_products.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "interpose/accumulator.h"
#include "interpose/backward_graph.h"
#include "interpose/hooks_aside.h"
#include "interpose/weight_product.h"

namespace fsdp::interpose {

namespace {

using torch::Tensor;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::autograd::generated::EmbeddingBackward0;
using torch::autograd::generated::TBackward0;
using torch::autograd::generated::ToCopyBackward0;

// A node at which the second backward begins. Its input is no more than a tensor on the device whose thread runs it.
class Beginning : public OwnNode {
 public:
  Beginning(uint64_t sequence_nr, Edge next, torch::Device device) : OwnNode(sequence_nr, edge_list{std::move(next)}) {
    add_input_metadata(input_on(device));
  }
  static Tensor input_on(torch::Device device) { return torch::empty({0}, device); }
  torch::Device device() const { return input_metadata(0).device(); }

 private:
  void release_members() override {}
};

// A gradient that the first backward has computed.
class KeptGradient final : public Beginning {
 public:
  KeptGradient(uint64_t sequence_nr, Edge next, const Tensor& gradient)
      : Beginning(sequence_nr, std::move(next), gradient.device()), gradient_(gradient) {}
  variable_list apply(variable_list&&) override { return {std::exchange(gradient_, {}).get()}; }

 private:
  void release_members() override { gradient_ = {}; }

  KeptTensor gradient_;
};

class LeftProduct final : public Beginning {
 public:
  LeftProduct(uint64_t sequence_nr, Edge next, WeightProduct product)
      : Beginning(sequence_nr, std::move(next), product.gradient.get().device()), product_(std::move(product)) {}
  variable_list apply(variable_list&&) override { return {std::exchange(product_, {}).compute()}; }

 private:
  void release_members() override { product_ = {}; }

  WeightProduct product_;
};

bool is_embedding(Node& node) { return dynamic_cast<EmbeddingBackward0*>(&node) != nullptr; }

// From a parameter's form in the graph to the parameter: transposes, and copies in another dtype.
bool passes_on(Node& node) {
  return dynamic_cast<TBackward0*>(&node) != nullptr || dynamic_cast<ToCopyBackward0*>(&node) != nullptr;
}

// How a graph is divided.
class Division {
 public:
  Division(const edge_list& roots, const edge_list& inputs) : graph_(roots) {
    for (const Edge& input : inputs) inputs_.insert(input.function.get());
    for (Node* node : graph_.nodes()) {
      std::vector<BackwardGraph::Use> makers;
      if (leaf_of(*node).defined() && !inputs_.contains(node) && can_be_left(node, makers)) {
        left_leaves_.insert(node);
        for (const BackwardGraph::Use& maker : makers) makers_.emplace(maker.user, maker.edge);
      }
    }
    for (Node* node : graph_.nodes()) divide(node);
  }

  struct Layer {
    Node* node;
    size_t weight_edge;
  };
  // The layers that run in the first backward and leave their products.
  const std::vector<Layer>& layers() const { return layers_; }
  // Leaves whose gradients are left.
  const std::unordered_set<Node*>& left_leaves() const { return left_leaves_; }
  // The nodes that do not run then: the gradients of their inputs are kept.
  const std::vector<Node*>& kept() const { return kept_; }
  // In the order of an undivided backward.
  uint64_t sequence_nr(Node* node) const {
    return leaf_of(*node).defined() ? graph_.last_user(node) : node->sequence_nr();
  }

 private:
  // True if only layers and embeddings, which `makers` gets, make the gradient of a leaf or of its form.
  bool can_be_left(Node* node, std::vector<BackwardGraph::Use>& makers) const {
    for (const BackwardGraph::Use& use : graph_.uses(node)) {
      if (use.user == nullptr || has_hooks(*use.user)) return false;
      if (passes_on(*use.user)) {
        if (!can_be_left(use.user, makers)) return false;
      } else if (is_embedding(*use.user) || weight_edge(*use.user) == use.edge) {
        makers.push_back(use);
      } else {
        return false;
      }
    }
    return true;
  }

  // The nodes that this one leads to are divided already. A layer that leads to nothing else than its weight would not
  // run in the first backward.
  void divide(Node* node) {
    const auto maker = makers_.find(node);
    const bool is_layer = maker != makers_.end() && !is_embedding(*node);
    bool runs = false;
    for (const Edge& edge : node->next_edges()) runs |= edge.is_valid() && wanted_.contains(edge.function.get());
    if (is_layer && runs) layers_.push_back({node, maker->second});
    const bool keep = leaf_of(*node).defined() ? !left_leaves_.contains(node) && !inputs_.contains(node)
                                               : maker != makers_.end() && !(is_layer && runs);
    if (keep) kept_.push_back(node);
    if (keep || runs || inputs_.contains(node)) wanted_.insert(node);
  }

  BackwardGraph graph_;
  std::unordered_set<Node*> inputs_, left_leaves_;
  std::unordered_map<Node*, size_t> makers_;  // of the gradients of those leaves, with the edge to them
  std::unordered_set<Node*> wanted_;          // by the first backward
  std::vector<Layer> layers_;
  std::vector<Node*> kept_;
};

edge_list edges_of_inputs(const std::vector<Tensor>& inputs) {
  edge_list edges;
  for (const Tensor& input : inputs) {
    FSDP_CHECK(input.defined() && input.is_leaf() && input.requires_grad(),
               "backward_to_inputs: input {} of {} is no leaf that requires gradients. Pass the tensors that the "
               "forward began with, after detach().requires_grad_().",
               edges.size(), inputs.size());
    edges.push_back(torch::autograd::impl::gradient_edge(input));
  }
  return edges;
}

edge_list edges_of_outputs(const std::vector<Tensor>& outputs) {
  edge_list edges;
  for (const Tensor& output : outputs) {
    FSDP_CHECK(output.defined() && output.requires_grad(),
               "backward_to_inputs: output {} of {} requires no gradients. Pass only outputs that do.", edges.size(),
               outputs.size());
    edges.push_back(torch::autograd::impl::gradient_edge(output));
  }
  return edges;
}

variable_list whole_gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients) {
  FSDP_CHECK(outputs.size() == gradients.size(), "backward_to_inputs: found {} gradients for {} outputs",
             gradients.size(), outputs.size());
  variable_list whole;
  for (size_t i = 0; i < outputs.size(); ++i) {
    FSDP_CHECK(gradients[i].defined() || outputs[i].numel() == 1,
               "backward_to_inputs: output {} of {} has {} elements and no gradient. Pass its gradient.", i,
               outputs.size(), outputs[i].numel());
    whole.push_back(gradients[i].defined() ? gradients[i] : torch::ones_like(outputs[i]));
  }
  return whole;
}

torch::autograd::Engine& engine() { return torch::autograd::Engine::get_default_engine(); }

}  // namespace

std::vector<Tensor> LaterProducts::backward_to_inputs(const std::vector<Tensor>& outputs,
                                                      const std::vector<Tensor>& gradients,
                                                      const std::vector<Tensor>& inputs, bool retain_graph) {
  FSDP_CHECK(empty(), "backward_to_inputs: the products of the backward before wait. Call run() first.");
  const edge_list roots = edges_of_outputs(outputs);
  edge_list wanted = edges_of_inputs(inputs);
  const variable_list given = whole_gradients(outputs, gradients);
  const Division division(roots, wanted);

  std::deque<HooksAside> hooks;
  for (Node* node : division.kept()) {
    wanted.emplace_back(node->getptr(), 0);
    const Tensor leaf = leaf_of(*node);
    if (leaf.defined() && !node->tensor_pre_hooks().empty()) hooks.emplace_back(leaf);
  }
  weights_.clear();
  for (Node* node : division.left_leaves()) weights_.emplace_back(leaf_of(*node));
  std::vector<WeightProduct> products(division.layers().size());
  std::deque<LeavingProduct> leaving;
  for (size_t i = 0; i < products.size(); ++i) {
    leaving.emplace_back(*division.layers()[i].node,
                         [&products, i](WeightProduct one) { products[i] = std::move(one); });
  }
  if (wanted.empty()) return {};
  variable_list found = engine().execute(roots, given, retain_graph, /*create_graph=*/false,
                                         /*accumulate_grad=*/false, wanted);

  for (size_t i = 0; i < products.size(); ++i) {
    const auto [layer, edge] = division.layers()[i];
    if (!products[i].gradient.defined()) continue;
    nodes_.push_back(make_node<LeftProduct>(layer->sequence_nr(), layer->next_edge(edge), std::move(products[i])));
  }
  for (size_t i = inputs.size(); i < wanted.size(); ++i) {
    if (!found[i].defined()) continue;
    nodes_.push_back(make_node<KeptGradient>(division.sequence_nr(wanted[i].function.get()), wanted[i], found[i]));
  }
  retain_graph_ = retain_graph;
  found.resize(inputs.size());
  return found;
}

void LaterProducts::add(const Tensor& leaf, const Tensor& gradient) {
  Edge edge = torch::autograd::impl::gradient_edge(leaf);
  const uint64_t sequence_nr = edge.function->sequence_nr();
  nodes_.push_back(make_node<KeptGradient>(sequence_nr, std::move(edge), gradient));
}

void LaterProducts::run() {
  if (empty()) return;
  std::vector<NodeOwner> nodes = std::exchange(nodes_, {});
  for (const KeptTensor& weight : std::exchange(weights_, {})) weight.get();
  edge_list roots;
  variable_list begins;
  for (NodeOwner& node : nodes) {
    begins.push_back(Beginning::input_on(static_cast<const Beginning&>(*node).device()));
    roots.emplace_back(std::move(node), 0);
  }
  engine().execute(roots, begins, retain_graph_, /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace fsdp::interpose
