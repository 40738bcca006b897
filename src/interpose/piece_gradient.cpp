#include "interpose/piece_gradient.h"

#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace fsdp::interpose {

namespace {

using torch::autograd::Variable;

class PieceMeta final : public torch::autograd::AutogradMeta {
 public:
  explicit PieceMeta(std::shared_ptr<Link> link) : link_(std::move(link)) {}

  const Variable& grad() const override {
    announce();
    return grad_;
  }
  Variable& mutable_grad() override {
    announce();
    return grad_;
  }

 private:
  void announce() const {
    if (!link_->local_sums.load(std::memory_order_relaxed)) [[likely]]
      return;
    if (Listener* listener = link_->listener) listener->gradient_read();
  }

  std::shared_ptr<Link> link_;
};

}  // namespace

void announce_gradient_reads(const torch::Tensor& piece, const std::shared_ptr<Link>& link) {
  piece.unsafeGetTensorImpl()->set_autograd_meta(std::make_unique<PieceMeta>(link));
}

torch::Tensor& gradient_of(const torch::Tensor& piece) {
  return torch::autograd::impl::materialize_autograd_meta(piece)->grad_;
}

}  // namespace fsdp::interpose
