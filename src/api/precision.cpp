#include "api/precision.h"

#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/names.h"
#include "fsdp/sync_batch_norm.h"

namespace fsdp {

namespace {

// Patterns name modules: a parameter is kept when its module, or one around it, is.
bool is_kept(const std::string& parameter, const std::vector<std::string>& patterns) {
  for (size_t end = parameter.rfind('.'); end != std::string::npos && end > 0; end = parameter.rfind('.', end - 1)) {
    if (matches_any(patterns, parameter.substr(0, end))) return true;
  }
  return false;
}

void convert_buffers(NamedUnit& unit, const MixedPrecision& precision) {
  if (!precision.buffer_dtype) return;
  torch::NoGradGuard no_grad;
  for (auto& [name, buffer] : unit.buffers) {
    if (buffer.is_floating_point() && !is_kept(name, precision.keep))
      buffer.set_data(buffer.to(*precision.buffer_dtype));
  }
}

}  // namespace

bool is_supported(torch::ScalarType dtype) {
  return dtype == torch::kFloat32 || dtype == torch::kBFloat16 || dtype == torch::kHalf;
}

void check_precision(const MixedPrecision& precision) {
  auto check = [](const char* option, std::optional<torch::ScalarType> dtype) {
    FSDP_CHECK(!dtype || is_supported(*dtype),
               "shard: found mixed_precision.{} {}, expected float32, bfloat16 or float16", option, toString(*dtype));
  };
  check("param_dtype", precision.param_dtype);
  check("reduce_dtype", precision.reduce_dtype);
  check("buffer_dtype", precision.buffer_dtype);
}

void keep_batch_norms(const torch::nn::Module& module, MixedPrecision& precision) {
  if (!precision.param_dtype || precision.buffer_dtype) return;
  for (const auto& child : module.named_modules("", /*include_self=*/false)) {
    const torch::nn::Module& one = *child.value();
    if (dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&one) ||
        dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&one) ||
        dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&one) || dynamic_cast<const SyncBatchNormImpl*>(&one)) {
      precision.keep.push_back(child.key());
    }
  }
}

std::vector<engine::UnitSpec> divide_by_dtype(std::vector<NamedUnit> units, const MixedPrecision& precision) {
  std::vector<engine::UnitSpec> divided;
  for (NamedUnit& unit : units) {
    convert_buffers(unit, precision);
    std::map<torch::ScalarType, NamedUnit> parts;
    std::map<torch::ScalarType, int64_t> numels;
    for (auto& [name, tensor] : unit.parameters) {
      const bool converted = precision.param_dtype && !is_kept(name, precision.keep);
      const torch::ScalarType dtype = converted ? *precision.param_dtype : tensor.scalar_type();
      parts[dtype].parameters.emplace_back(name, tensor);
      numels[dtype] += tensor.numel();
    }
    auto larger = [](const auto& a, const auto& b) { return a.second < b.second; };
    const torch::ScalarType main = std::max_element(numels.begin(), numels.end(), larger)->first;
    parts[main].buffers = std::move(unit.buffers);
    for (auto& [dtype, part] : parts) {
      part.name = dtype == main ? unit.name : fmt::format("{} ({})", unit.name, toString(dtype));
      divided.push_back({std::move(part), dtype});
    }
  }
  return divided;
}

}  // namespace fsdp
