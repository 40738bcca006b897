// Scripted modules: units are chosen over a native module that has their names, parameters and buffers.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <string>

#include "fsdp/sharded_model.h"

namespace fsdp {

namespace {

using NativeModule = std::shared_ptr<torch::nn::Module>;

// Without the packages before it, where the compiler puts what tells classes of one name apart.
std::string class_of(const torch::jit::Module& module) { return module.type()->name()->name(); }

// Python's containers, once compiled: children named 0, 1, 2, ...
bool is_container(const torch::jit::Module& module) {
  int64_t next = 0;
  for (const auto& child : module.named_children()) {
    if (child.name != std::to_string(next++)) return false;
  }
  return next > 0;
}

NativeModule empty_view(const torch::jit::Module& module) {
  if (!is_container(module)) return std::make_shared<torch::nn::Module>(class_of(module));
  if (class_of(module) == "Sequential") return std::make_shared<torch::nn::SequentialImpl>();
  return std::make_shared<torch::nn::ModuleListImpl>();
}

NativeModule view_of(const torch::jit::Module& module) {
  NativeModule view = empty_view(module);
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    view->register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) view->register_buffer(buffer.name, buffer.value);
  for (const auto& child : module.named_children()) view->register_module(child.name, view_of(child.value));
  return view;
}

}  // namespace

ShardedModel shard(torch::jit::Module& module, World& world, Options options) {
  // Its kernels read bytes without an operator, which nothing would gather.
  torch::jit::setTensorExprFuserEnabled(false);
  return shard(*view_of(module), world, std::move(options));
}

}  // namespace fsdp
