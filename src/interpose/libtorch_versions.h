// The differences between the versions of LibTorch that the library is built with, 2.11 to 2.15. All other files read
// as if there were one version; `scripts/matrix` compiles and tests each.
//
// c10d renamed `_allgather_base` and `_reduce_scatter_base` in 2.14. The old names are still there and call the new
// ones, so they need no line here.
#pragma once

#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace fsdp::interpose {

// Autograd's nodes count their references themselves since 2.13. Before, shared pointers held them.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
using NodeOwner = c10::intrusive_ptr<torch::autograd::Node>;
using NodeObserver = c10::weak_intrusive_ptr<torch::autograd::Node>;

template <typename Node, typename... Arguments>
NodeOwner make_node(Arguments&&... arguments) {
  return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}

// A node that observers outlive. Its destructor waits for the last observer, so it releases its members when its last
// owner goes.
class OwnNode : public torch::autograd::Node {
 public:
  using Node::Node;

  void release_resources() override {
    release_members();
    Node::release_resources();
  }

 private:
  virtual void release_members() = 0;
};
#else
using NodeOwner = std::shared_ptr<torch::autograd::Node>;
using NodeObserver = std::weak_ptr<torch::autograd::Node>;

template <typename Node, typename... Arguments>
NodeOwner make_node(Arguments&&... arguments) {
  return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
}

class OwnNode : public torch::autograd::Node {
 public:
  using Node::Node;

 private:
  virtual void release_members() = 0;  // the destructor does it
};
#endif

// Ends the refusal that release_data_and_set_meta_custom_data_ptr_error_msg_ began. 2.11 has no call for that, only
// private members: an explicit instantiation may name them.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
inline void allow_data_access(c10::StorageImpl& storage) { storage.clear_data_ptr_access_error_msg_(); }
#else
template <bool c10::StorageImpl::*refuses, void (c10::StorageImpl::*refresh)()>
struct StorageRefusal {
  friend void end_refusal(c10::StorageImpl& storage) {
    storage.*refuses = false;
    (storage.*refresh)();
  }
};
template struct StorageRefusal<&c10::StorageImpl::throw_on_immutable_data_ptr_,
                               &c10::StorageImpl::refresh_has_data_ptr_check>;
void end_refusal(c10::StorageImpl& storage);

inline void allow_data_access(c10::StorageImpl& storage) {
  storage.get_extra_meta().custom_data_ptr_error_msg_ = std::nullopt;
  end_refusal(storage);
}
#endif

}  // namespace fsdp::interpose
