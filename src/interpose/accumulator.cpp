#include "interpose/accumulator.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "interpose/libtorch_versions.h"

namespace fsdp::interpose {

namespace {

using torch::autograd::Node;

class GradientAccumulator final : public OwnNode {
 public:
  GradientAccumulator(torch::Tensor parameter, c10::intrusive_ptr<UnitStorage> storage, int index)
      : OwnNode(/*sequence_nr=*/UINT64_MAX),  // the engine runs accumulators as early as it can
        parameter_(std::move(parameter)),
        storage_(std::move(storage)),
        index_(index) {
    add_input_metadata(parameter_);
  }

  std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>& tensor_pre_hooks() noexcept override {
    return torch::autograd::impl::hooks(parameter_);
  }
  std::unique_ptr<torch::autograd::PostAccumulateGradHook>& tensor_post_acc_grad_hooks() const noexcept override {
    return torch::autograd::impl::post_acc_grad_hooks(parameter_);
  }

  const torch::Tensor& parameter() const { return parameter_; }
  const std::shared_ptr<Link>& link() const { return storage_->link(); }
  torch::Tensor place() const {
    Listener* listener = storage_->link()->listener;
    const bool frozen = !parameter_.requires_grad();  // since its forward
    return listener && !frozen ? listener->gradient_destination(storage_->unit(), index_) : torch::Tensor();
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    Listener* listener = storage_->link()->listener;
    FSDP_CHECK(listener != nullptr,
               "a backward reached a parameter whose ShardedModel was destroyed. Keep the ShardedModel alive until the "
               "backward is over.");
    if (!parameter_.requires_grad()) return {};  // frozen since its forward
    torch::Tensor& gradient = gradients[0];
    // A part of a sum over ranks cannot lead back to what the gradient was made of.
    FSDP_CHECK_UNIT(!gradient.defined() || !gradient.requires_grad() || !torch::GradMode::is_enabled(),
                    storage_->name(),
                    "backward: found create_graph with a gradient that can be differentiated again, expected a "
                    "backward without create_graph: a sharded parameter's gradient keeps no graph, so the "
                    "second-order term would be lost. Compute such gradients with torch::autograd::grad(..., "
                    "create_graph), and run backward on the loss made of them.");
    if (gradient.defined()) listener->gradient_arrives(storage_->unit(), index_, std::move(gradient));
    auto& hook = tensor_post_acc_grad_hooks();
    if (hook) (*hook)(parameter_);
    return {};
  }

 private:
  void release_members() override {
    parameter_.reset();
    storage_.reset();
  }

  torch::Tensor parameter_;
  c10::intrusive_ptr<UnitStorage> storage_;
  int index_;
};

// Null where hooks see the gradient on its way.
GradientAccumulator* unseen_accumulator(Node* node) {
  auto* accumulator = dynamic_cast<GradientAccumulator*>(node);
  return accumulator != nullptr && !has_hooks(*accumulator) ? accumulator : nullptr;
}

// Null for a tensor that is no sharded parameter itself.
GradientAccumulator* accumulator_of(const torch::Tensor& parameter) {
  if (UnitStorage::of(parameter) == nullptr || !parameter.is_leaf()) return nullptr;
  return unseen_accumulator(torch::autograd::impl::try_get_grad_accumulator(parameter).get());
}

// Null for a tensor that is no transpose of one, made by t().
GradientAccumulator* accumulator_behind(const torch::Tensor& transposed) {
  if (UnitStorage::of(transposed) == nullptr || !transposed.grad_fn()) return nullptr;
  Node& node = *transposed.grad_fn();
  if (node.name() != "TBackward0" || has_hooks(node)) return nullptr;
  return unseen_accumulator(node.next_edge(0).function.get());
}

}  // namespace

torch::Tensor leaf_of(const Node& node) {
  if (node.num_outputs() > 0) return {};  // most nodes
  if (const auto* ours = dynamic_cast<const GradientAccumulator*>(&node)) return ours->parameter();
  const auto* other = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node);
  return other != nullptr ? other->variable : torch::Tensor();
}

bool has_hooks(Node& node) {
  return !node.tensor_pre_hooks().empty() || node.tensor_post_acc_grad_hooks() || !node.pre_hooks().empty() ||
         !node.post_hooks().empty() || !node.retains_grad_hooks().empty();
}

std::vector<std::shared_ptr<Link>> links_behind(const torch::Tensor& tensor) {
  std::vector<std::shared_ptr<Link>> links;
  std::vector<Node*> open{tensor.grad_fn().get()};
  std::unordered_set<Node*> seen{nullptr};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    const auto* accumulator = dynamic_cast<GradientAccumulator*>(node);
    if (accumulator && std::find(links.begin(), links.end(), accumulator->link()) == links.end())
      links.push_back(accumulator->link());
    for (const torch::autograd::Edge& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return links;
}

bool gradient_goes_in_place(const torch::Tensor& parameter) { return accumulator_of(parameter) != nullptr; }

bool gradient_of_transposed_goes_in_place(const torch::Tensor& transposed) {
  return accumulator_behind(transposed) != nullptr &&
         transposed.grad_fn()->sequence_nr() + 1 == at::sequence_number::peek();
}

torch::Tensor gradient_destination(const torch::Tensor& parameter) {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  if (torch::GradMode::is_enabled() || (wanted != nullptr && !wanted->empty())) return {};
  const GradientAccumulator* accumulator =
      parameter.is_leaf() ? accumulator_of(parameter) : accumulator_behind(parameter);
  return accumulator != nullptr ? accumulator->place() : torch::Tensor();
}

std::shared_ptr<void> install_accumulator(const torch::Tensor& parameter,
                                          const c10::intrusive_ptr<UnitStorage>& storage, int index) {
  auto owner = std::make_shared<NodeOwner>(make_node<GradientAccumulator>(parameter, storage, index));
  torch::autograd::impl::set_grad_accumulator(parameter, NodeObserver(*owner));
  return owner;
}

}  // namespace fsdp::interpose
