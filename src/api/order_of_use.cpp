// The order in which a module uses its parameters, for automatic units.
#include <string>
#include <vector>

#include "fsdp/options.h"
#include "interpose/use_recorder.h"

namespace fsdp {

std::vector<std::string> order_of_use(const torch::nn::Module& module, const std::function<void()>& forward) {
  std::vector<std::string> names;
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value().defined()) continue;
    names.push_back(parameter.key());
    parameters.push_back(parameter.value());
  }
  const interpose::UseRecorder recorder(parameters);
  forward();
  std::vector<std::string> order;
  for (const size_t used : recorder.order()) order.push_back(names[used]);
  return order;
}

}  // namespace fsdp
