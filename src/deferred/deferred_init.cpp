#include "fsdp/deferred_init.h"

#include <algorithm>
#include <vector>

#include "deferred/default_generator.h"
#include "deferred/real_tensors.h"
#include "deferred/recording.h"

namespace fsdp {

class DeferredInitScope::Open {
 public:
  Open() : scope_(*recording_) {}

 private:
  std::shared_ptr<deferred::Recording> recording_ = std::make_shared<deferred::Recording>();
  interpose::RecordedScope scope_;
};

// One inside another is a part of it.
DeferredInitScope::DeferredInitScope()
    : open_(interpose::RecordedScope::current() == nullptr ? std::make_unique<Open>() : nullptr) {}

DeferredInitScope::~DeferredInitScope() = default;

bool is_deferred(const torch::Tensor& tensor) { return interpose::DeferredStorage::of(tensor) != nullptr; }

void materialize(torch::nn::Module& module) {
  std::vector<torch::Tensor> tensors;
  for (const auto& parameter : module.named_parameters()) tensors.push_back(parameter.value());
  for (const auto& buffer : module.named_buffers()) tensors.push_back(buffer.value());
  if (std::ranges::none_of(tensors, is_deferred)) return;
  deferred::check_not_drawn();
  deferred::make_real_beside({}, tensors);
  deferred::settle_draws();
}

}  // namespace fsdp
