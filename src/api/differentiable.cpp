#include "fsdp/collectives.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace fsdp::differentiable {

namespace {

using Tensors = std::vector<torch::Tensor>;

// A collective and its backward, which is one as well.
struct Collective {
  std::function<Tensors()> run;
  std::function<Tensors(Tensors gradients)> backward;
};

struct InGraph : torch::autograd::Function<InGraph> {
  static Tensors forward(torch::autograd::AutogradContext* context, at::TensorList, const Collective& collective) {
    context->saved_data["backward"] = torch::IValue::make_capsule(c10::make_intrusive<Holder>(collective.backward));
    return collective.run();
  }

  // A result that was not used has zeros for its gradient: the ranks all take part.
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["backward"].toCapsule());
    Tensors of_arguments = holder->backward(std::move(gradients));
    of_arguments.emplace_back();  // the collective has none
    return of_arguments;
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::function<Tensors(Tensors)> value) : backward(std::move(value)) {}
    const std::function<Tensors(Tensors)> backward;
  };
};

void check_floating(const torch::Tensor& tensor, const char* name) {
  FSDP_CHECK(!tensor.defined() || at::isFloatingType(tensor.scalar_type()) || at::isComplexType(tensor.scalar_type()),
             "differentiable::{}: found a {} tensor, which has no gradient. Call the World's own {}.", name,
             c10::toString(tensor.scalar_type()), name);
}

int64_t dimension(const torch::Tensor& tensor, int64_t dim, const char* name) {
  FSDP_CHECK(tensor.defined() && -tensor.dim() <= dim && dim < tensor.dim(),
             "differentiable::{}: found dimension {} of {}, expected one that the tensor has.", name, dim,
             tensor.defined() ? fmt::format("a tensor of {} dimensions", tensor.dim()) : "an undefined tensor");
  return dim < 0 ? dim + tensor.dim() : dim;
}

// The gradient on each rank of a loss that all compute alike. Its own gradient is that of the copies.
torch::Tensor counted_once(const torch::Tensor& gradient, const World& world) {
  const auto run = [&]() -> Tensors { return {gradient.clone()}; };
  const auto backward = [world](const Tensors& gradients) -> Tensors { return {all_reduce(gradients[0], world)}; };
  return InGraph::apply(at::TensorList(gradient), Collective{run, backward})[0];
}

// counted_once, for a loss that all compute from the parts of the ranks beside each other.
torch::Tensor part_counted_once(const torch::Tensor& gradient, const World& world, int64_t dim) {
  const int64_t length = gradient.size(dim) / world.size();
  const auto run = [&]() -> Tensors { return {gradient.narrow(dim, world.rank() * length, length).clone()}; };
  const auto backward = [world, dim](const Tensors& gradients) -> Tensors {
    return {all_gather(gradients[0], world, dim)};
  };
  return InGraph::apply(at::TensorList(gradient), Collective{run, backward})[0];
}

}  // namespace

torch::Tensor all_reduce(const torch::Tensor& tensor, World world, ResultUse use) {
  check_floating(tensor, "all_reduce");
  const auto run = [&]() -> Tensors {
    torch::Tensor sum = tensor.defined() ? tensor.clone() : tensor;
    world.all_reduce_(sum);
    return {sum};
  };
  const auto backward = [world, use](const Tensors& gradients) -> Tensors {
    if (use == ResultUse::Alike) return {counted_once(gradients[0], world)};
    return {all_reduce(gradients[0], world, ResultUse::PerRank)};
  };
  return InGraph::apply(at::TensorList(tensor), Collective{run, backward})[0];
}

torch::Tensor all_gather(const torch::Tensor& tensor, World world, int64_t dim, ResultUse use) {
  check_floating(tensor, "all_gather");
  dim = dimension(tensor, dim, "all_gather");
  const auto run = [&]() -> Tensors { return {torch::cat(world.all_gather(tensor), dim)}; };
  const auto backward = [world, dim, use](const Tensors& gradients) -> Tensors {
    if (use == ResultUse::Alike) return {part_counted_once(gradients[0], world, dim)};
    return {reduce_scatter(gradients[0], world, dim)};
  };
  return InGraph::apply(at::TensorList(tensor), Collective{run, backward})[0];
}

torch::Tensor reduce_scatter(const torch::Tensor& tensor, World world, int64_t dim) {
  check_floating(tensor, "reduce_scatter");
  dim = dimension(tensor, dim, "reduce_scatter");
  FSDP_CHECK(tensor.size(dim) % world.size() == 0,
             "differentiable::reduce_scatter: dimension {} has {} entries, expected a multiple of {} ranks.", dim,
             tensor.size(dim), world.size());
  const auto run = [&]() -> Tensors {
    const torch::Tensor part = world.reduce_scatter(tensor.movedim(dim, 0));
    return {dim == 0 ? part : part.movedim(0, dim).clone(torch::MemoryFormat::Contiguous)};  // no view
  };
  const auto backward = [world, dim](const Tensors& gradients) -> Tensors {
    return {all_gather(gradients[0], world, dim, ResultUse::PerRank)};
  };
  return InGraph::apply(at::TensorList(tensor), Collective{run, backward})[0];
}

std::vector<torch::Tensor> all_to_all(const std::vector<torch::Tensor>& tensors, World world) {
  for (const torch::Tensor& tensor : tensors) check_floating(tensor, "all_to_all");
  const auto run = [&] { return world.all_to_all(tensors); };
  const auto backward = [world](const Tensors& gradients) { return all_to_all(gradients, world); };
  return InGraph::apply(at::TensorList(tensors), Collective{run, backward});
}

}  // namespace fsdp::differentiable
