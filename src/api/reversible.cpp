#include "fsdp/reversible.h"

#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "interpose/surroundings.h"

namespace fsdp {

namespace {

using interpose::Surroundings;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Pair {
  Tensor first, second;
};

// A block in one forward: what its functions were called in.
struct BlockCall {
  std::shared_ptr<ReversibleBlockImpl> block;
  Surroundings of_f, of_g;
};

// Kept for the backward.
struct CallsInOrder : torch::CustomClassHolder {
  std::vector<BlockCall> calls;
};

// function(input) once more, and backward from it; returns its value and the input's gradient.
template <typename Function>
Pair again(const Surroundings& surroundings, const Tensor& input, const Tensor& gradient, const Function& function) {
  const Tensor leaf = input.detach().requires_grad_();
  Tensor value;
  {
    const Surroundings::Restored then(surroundings);
    const torch::AutoGradMode with_gradients(true);
    value = function(leaf);
  }
  if (value.requires_grad()) value.backward(gradient);
  return {value.detach(), leaf.grad()};
}

Tensor sum(const Tensor& gradient, const Tensor& more) { return more.defined() ? gradient + more : gradient; }

// Takes a block's outputs to its inputs, and their gradients.
void turn_back(const BlockCall& call, Pair& values, Pair& gradients) {
  const Pair g = again(call.of_g, values.first, gradients.second, [&](const Tensor& y1) { return call.block->g(y1); });
  values.second = values.second - g.first;
  gradients.first = sum(gradients.first, g.second);
  const Pair f = again(call.of_f, values.second, gradients.first, [&](const Tensor& x2) { return call.block->f(x2); });
  values.first = values.first - f.first;
  gradients.second = sum(gradients.second, f.second);
}

struct ReversibleCalls : torch::autograd::Function<ReversibleCalls> {
  // `always` requires gradients: those of parameters are wanted where no input's is.
  static variable_list forward(AutogradContext* context, const Tensor& x1, const Tensor& x2, const Tensor& /*always*/,
                               const std::vector<std::shared_ptr<ReversibleBlockImpl>>& blocks) {
    auto kept = c10::make_intrusive<CallsInOrder>();
    Pair values{x1, x2};
    for (const auto& block : blocks) {
      Surroundings of_f({x1, x2});
      values.first = values.first + block->f(values.second);
      of_f.forget_undrawn();
      Surroundings of_g({x1, x2});
      values.second = values.second + block->g(values.first);
      of_g.forget_undrawn();
      kept->calls.push_back({block, std::move(of_f), std::move(of_g)});
    }
    context->saved_data["calls"] = torch::IValue::make_capsule(kept);
    context->save_for_backward({values.first, values.second});
    return {values.first, values.second};
  }

  static variable_list backward(AutogradContext* context, const variable_list& of_outputs) {
    FSDP_CHECK(!torch::GradMode::is_enabled(),
               "ReversibleSequence: found a backward with create_graph, expected one without: it has no second "
               "derivative. Call the blocks one after the other instead, under activation_checkpoint to keep less.");
    const variable_list saved = context->get_saved_variables();
    const auto kept = c10::static_intrusive_pointer_cast<CallsInOrder>(context->saved_data["calls"].toCapsule());
    Pair values{saved[0].detach(), saved[1].detach()}, gradients{of_outputs[0], of_outputs[1]};
    for (auto call = kept->calls.rbegin(); call != kept->calls.rend(); ++call) turn_back(*call, values, gradients);
    return {gradients.first, gradients.second, Tensor(), Tensor()};
  }
};

}  // namespace

ReversibleBlockImpl::ReversibleBlockImpl(torch::nn::AnyModule f, torch::nn::AnyModule g)
    : f_(std::move(f)), g_(std::move(g)) {
  register_module("f", f_.ptr());
  register_module("g", g_.ptr());
}

std::tuple<Tensor, Tensor> ReversibleBlockImpl::forward(const Tensor& x1, const Tensor& x2) {
  const Tensor y1 = x1 + f(x2);
  return {y1, x2 + g(y1)};
}

ReversibleSequenceImpl::ReversibleSequenceImpl(const std::vector<ReversibleBlock>& blocks)
    : blocks_(register_module("blocks", torch::nn::ModuleList())) {
  FSDP_CHECK(!blocks.empty(), "ReversibleSequence: found no block, expected one or more");
  for (const ReversibleBlock& block : blocks) blocks_->push_back(block);
}

std::tuple<Tensor, Tensor> ReversibleSequenceImpl::forward(const Tensor& x1, const Tensor& x2) {
  std::vector<std::shared_ptr<ReversibleBlockImpl>> blocks;
  for (const auto& module : *blocks_) blocks.push_back(std::dynamic_pointer_cast<ReversibleBlockImpl>(module));
  const Tensor always = torch::empty({0}, torch::requires_grad());
  const variable_list results = ReversibleCalls::apply(x1, x2, always, blocks);
  return {results[0], results[1]};
}

}  // namespace fsdp
