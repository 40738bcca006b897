#include "api/precision.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/error.h"
#include "base/names.h"

namespace fsdp {

namespace {

constexpr std::string_view kStatistics = "running_mean";  // as every module of LibTorch that has statistics calls it

// The name of the module that a parameter or buffer belongs to; empty for the root.
std::string_view module_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

// True if the pattern names the tensor, its module, or one around it.
bool names(const std::string& pattern, std::string_view tensor) {
  for (; !tensor.empty(); tensor = module_of(tensor)) {
    if (matches(pattern, tensor)) return true;
  }
  return false;
}

// Returns the names of parameters and buffers. A tensor of several names has its first.
std::vector<std::string> names_of_tensors(const std::vector<NamedUnit>& units) {
  std::vector<std::string> all;
  std::unordered_set<const at::TensorImpl*> seen;
  const auto add = [&](const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back(name);
    }
  };
  for (const NamedUnit& unit : units) {
    add(unit.parameters);
    add(unit.buffers);
  }
  return all;
}

// Tensors left in their own dtype.
class Kept {
 public:
  Kept(const std::vector<NamedUnit>& units, const MixedPrecision& precision) : patterns_(precision.keep) {
    check_patterns(names_of_tensors(units));
    if (!precision.param_dtype || precision.buffer_dtype == precision.param_dtype) return;
    for (const NamedUnit& unit : units) {
      for (const auto& [name, buffer] : unit.buffers) {
        if (name.substr(name.rfind('.') + 1) == kStatistics) with_statistics_.emplace(module_of(name));
      }
    }
  }

  bool contains(const std::string& tensor) const {
    return with_statistics_.contains(std::string(module_of(tensor))) ||
           std::any_of(patterns_.begin(), patterns_.end(), [&](const auto& pattern) { return names(pattern, tensor); });
  }

 private:
  void check_patterns(const std::vector<std::string>& tensors) const {
    for (const std::string& pattern : patterns_) {
      FSDP_CHECK(std::ranges::any_of(tensors, [&](const auto& tensor) { return names(pattern, tensor); }),
                 "shard: the pattern '{}' in options.mixed_precision.keep matches no parameter or buffer that is "
                 "sharded, and no module of one. Names are as in named_parameters; a tied one has its first.",
                 pattern);
    }
  }

  std::vector<std::string> patterns_;
  std::unordered_set<std::string> with_statistics_;  // modules
};

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

void convert_buffers(const std::vector<NamedUnit>& units, const MixedPrecision& precision) {
  if (!precision.buffer_dtype) return;
  const Kept kept(units, precision);
  torch::NoGradGuard no_grad;
  std::unordered_set<const at::TensorImpl*> seen;  // of several names the first counts
  for (const NamedUnit& unit : units) {
    for (const auto& [name, buffer] : unit.buffers) {
      if (!seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
      if (buffer.is_floating_point() && !kept.contains(name)) buffer.set_data(buffer.to(*precision.buffer_dtype));
    }
  }
}

std::vector<engine::UnitSpec> divide_by_dtype(std::vector<NamedUnit> units, const MixedPrecision& precision) {
  const Kept kept(units, precision);
  std::vector<engine::UnitSpec> divided;
  for (NamedUnit& unit : units) {
    std::map<torch::ScalarType, NamedUnit> parts;
    std::map<torch::ScalarType, int64_t> numels;
    for (auto& [name, tensor] : unit.parameters) {
      const bool converted = precision.param_dtype && !kept.contains(name);
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
