#include "interpose/accumulator.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include "base/error.h"

namespace fsdp::interpose {

namespace {

using torch::autograd::Node;

class GradientAccumulator final : public Node {
 public:
  GradientAccumulator(torch::Tensor parameter, std::shared_ptr<Link> link, int unit, int index)
      : Node(/*sequence_nr=*/UINT64_MAX),  // the engine runs accumulators as early as it can
        parameter_(std::move(parameter)),
        link_(std::move(link)),
        unit_(unit),
        index_(index) {
    add_input_metadata(parameter_);
  }

  std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>& tensor_pre_hooks() noexcept override {
    return torch::autograd::impl::hooks(parameter_);
  }
  std::unique_ptr<torch::autograd::PostAccumulateGradHook>& tensor_post_acc_grad_hooks() const noexcept override {
    return torch::autograd::impl::post_acc_grad_hooks(parameter_);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    FSDP_CHECK(link_->listener != nullptr,
               "a backward reached a parameter whose ShardedModel was destroyed. Keep the ShardedModel alive until the "
               "backward is over.");
    if (!parameter_.requires_grad()) return {};  // frozen since its forward
    if (gradients[0].defined()) link_->listener->gradient_arrives(unit_, index_, std::move(gradients[0]));
    auto& hook = tensor_post_acc_grad_hooks();
    if (hook) (*hook)(parameter_);
    return {};
  }

 private:
  torch::Tensor parameter_;
  std::shared_ptr<Link> link_;
  int unit_;
  int index_;
};

// Since 2.13 nodes count their own references; before, they were held by shared pointers.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
using NodeOwner = c10::intrusive_ptr<Node>;
using NodeObserver = c10::weak_intrusive_ptr<Node>;
template <typename... Arguments>
NodeOwner make_node(Arguments&&... arguments) {
  return c10::make_intrusive<GradientAccumulator>(std::forward<Arguments>(arguments)...);
}
#else
using NodeOwner = std::shared_ptr<Node>;
using NodeObserver = std::weak_ptr<Node>;
template <typename... Arguments>
NodeOwner make_node(Arguments&&... arguments) {
  return std::make_shared<GradientAccumulator>(std::forward<Arguments>(arguments)...);
}
#endif

}  // namespace

std::shared_ptr<void> install_accumulator(const torch::Tensor& parameter, std::shared_ptr<Link> link, int unit,
                                          int index) {
  auto owner = std::make_shared<NodeOwner>(make_node(parameter, std::move(link), unit, index));
  torch::autograd::impl::set_grad_accumulator(parameter, NodeObserver(*owner));
  return owner;
}

}  // namespace fsdp::interpose
