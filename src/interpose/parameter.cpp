#include "interpose/parameter.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"
#include "interpose/accumulator.h"
#include "interpose/deferred_tensor.h"
#include "interpose/fallback.h"
#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

constexpr const char* kReplaced =
    " is no longer the tensor that was sharded (module->to(), a dtype conversion or set_data came after fsdp::shard). "
    "Convert the module first, then shard it.";

// The autograd data of a sharded parameter: its gradient is elsewhere, and who looks for it here learns where.
class GuardedMeta final : public torch::autograd::AutogradMeta {
 public:
  GuardedMeta(std::string name, c10::intrusive_ptr<UnitStorage> storage, at::TensorImpl* self, bool requires_grad)
      : AutogradMeta(nullptr, false), parameter_name_(std::move(name)), storage_(std::move(storage)), self_(self) {
    set_requires_grad(requires_grad, self);
  }

  const torch::autograd::Variable& grad() const override {
    throw_error(
        message_prefix(storage_->name()) + "the gradient of the sharded parameter " + parameter_name_ +
        " was asked for: it exists only as this rank's piece. Use sharded.clip_grad_norm_(), fsdp::AdamW(sharded) "
        "or sharded.shards() instead of the module's own parameters.");
  }

  torch::autograd::Variable& mutable_grad() override {
    if (!self_->has_storage() || self_->storage().unsafeGetStorageImpl() != storage_.get()) {
      throw_error(message_prefix(storage_->name()) + "the parameter " + parameter_name_ + kReplaced);
    }
    throw_error(
        message_prefix(storage_->name()) + "the gradient of the sharded parameter " + parameter_name_ +
        " cannot be changed (by zero_grad of the module, or of an optimizer over its parameters?): it exists only as "
        "this "
        "rank's piece. Use sharded.zero_grad(), or zero_grad() of an optimizer over sharded or sharded.shards().");
  }

 private:
  std::string parameter_name_;
  c10::intrusive_ptr<UnitStorage> storage_;
  at::TensorImpl* self_;
};

// Takes over what users registered on the tensor before it was sharded.
void install_meta(torch::Tensor& tensor, std::unique_ptr<GuardedMeta> meta) {
  if (auto* before = torch::autograd::impl::get_autograd_meta(tensor)) {
    meta->name_ = before->name_;
    meta->hooks_ = std::move(before->hooks_);
    meta->cpp_hooks_list_ = std::move(before->cpp_hooks_list_);
    meta->post_acc_grad_hooks_ = std::move(before->post_acc_grad_hooks_);
  }
  tensor.unsafeGetTensorImpl()->set_autograd_meta(std::move(meta));
}

}  // namespace

AttachedParameter::AttachedParameter(torch::Tensor tensor, std::string name,
                                     const c10::intrusive_ptr<UnitStorage>& storage, int64_t offset,
                                     const std::vector<int64_t>& strides, int index)
    : tensor_(std::move(tensor)), name_(std::move(name)), storage_(storage) {
  ensure_fallback();
  c10::impl::ExcludeDispatchKeyGuard unseen(kKey);  // set_data is an operator on the parameter itself
  auto view = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), tensor_.key_set().add(kKey),
                                                   c10::scalarTypeToTypeMeta(storage->dtype()));
  view->set_sizes_and_strides(tensor_.sizes(), strides, offset);
  const bool requires_grad = tensor_.requires_grad();
  if (DeferredStorage* deferred = DeferredStorage::of(tensor_)) deferred->leave(name_);
  tensor_.set_data(torch::Tensor(std::move(view)));
  install_meta(tensor_, std::make_unique<GuardedMeta>(name_, storage, tensor_.unsafeGetTensorImpl(), requires_grad));
  accumulator_ = install_accumulator(tensor_, storage, index);
}

void AttachedParameter::check_attached(std::string_view what) const {
  FSDP_CHECK_UNIT(UnitStorage::of(tensor_) == storage_.get(), storage_->name(), "{}: the parameter {}{}", what, name_,
                  kReplaced);
}

void AttachedParameter::mark_changed() { torch::autograd::impl::bump_version(tensor_); }

void AttachedParameter::set_version(int64_t version) {
  c10::VariableVersion counter = torch::autograd::impl::version_counter(tensor_);  // shared with the views
  counter.set_version(version);
}

}  // namespace fsdp::interpose
