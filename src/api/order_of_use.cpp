// The order in which a forward first uses a module's parameters.
#include <unordered_map>
#include <utility>

#include "api/operator_arguments.h"
#include "base/error.h"
#include "fsdp/options.h"

namespace fsdp {

std::vector<std::string> order_of_use(const torch::nn::Module& module, const std::function<void()>& forward) {
  FSDP_CHECK(forward != nullptr, "order_of_use: found an empty function, expected one that runs a forward");
  std::unordered_map<const at::TensorImpl*, std::string> unused;  // parameters' names
  for (const auto& parameter : module.named_parameters())
    unused.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
  std::vector<std::string> order;
  const OperatorArguments arguments([&](const at::Tensor& tensor) {
    const auto found = unused.find(tensor.unsafeGetTensorImpl());
    if (found == unused.end()) return;
    order.push_back(std::move(found->second));
    unused.erase(found);
  });
  forward();
  return order;
}

}  // namespace fsdp
