#include "models/first_values.h"

#include <fsdp/tensor_parallel.h>

#include <map>
#include <vector>

namespace models {

namespace {

std::map<std::string, fsdp::ParameterDivision> divisions_of(const torch::nn::Module& module) {
  std::map<std::string, fsdp::ParameterDivision> all;
  for (const auto& child : module.named_modules("", /*include_self=*/false)) {
    const auto* divided = dynamic_cast<const fsdp::DividedModule*>(child.value().get());
    if (divided == nullptr) continue;
    for (const auto& division : divided->divisions()) all[child.key() + "." + division.parameter] = division;
  }
  return all;
}

torch::Tensor own_part(const torch::Tensor& whole, const fsdp::ParameterDivision& division) {
  std::vector<torch::Tensor> parts;
  for (const auto& [begin, end] : division.ranges) parts.push_back(whole.narrow(division.dim, begin, end - begin));
  return torch::cat(parts, division.dim);
}

}  // namespace

void write_whole_parameters(torch::nn::Module& module,
                            const std::function<void(const std::string& name, torch::Tensor& whole)>& write) {
  const torch::NoGradGuard no_grad;
  const auto divisions = divisions_of(module);
  for (auto& parameter : module.named_parameters()) {
    const auto division = divisions.find(parameter.key());
    if (division == divisions.end()) {
      write(parameter.key(), parameter.value());
      continue;
    }
    torch::Tensor whole = torch::empty(division->second.shape, parameter.value().options());
    write(parameter.key(), whole);
    parameter.value().copy_(own_part(whole, division->second));
  }
}

}  // namespace models
