#include "api/whole_model.h"

#include <unordered_map>

#include "base/error.h"
#include "fsdp/tensor_parallel.h"

namespace fsdp {

namespace {

using engine::WholeModel;

class Finding {
 public:
  explicit Finding(const std::vector<NamedUnit>& units) {
    for (const NamedUnit& unit : units) {
      for (const auto& [name, tensor] : unit.parameters) names_.emplace(tensor.unsafeGetTensorImpl(), name);
    }
  }

  void visit(const torch::nn::Module& module, const std::string& prefix) {
    if (const auto* divided = dynamic_cast<const DividedModule*>(&module)) {
      for (const ParameterDivision& division : divided->divisions()) add(module, prefix, division);
    }
    if (const auto* blocks = dynamic_cast<const BlocksOfModel*>(&module)) add(*blocks, prefix);
    for (const auto& child : module.named_children()) visit(*child.value(), prefix + child.key() + ".");
  }

  WholeModel result() && { return std::move(whole_); }

 private:
  void add(const torch::nn::Module& module, const std::string& prefix, const ParameterDivision& division) {
    const auto parameters = module.named_parameters(/*recurse=*/false);
    const std::string where = "shard: divisions() of " + module.name() + " names " + prefix + division.parameter;
    FSDP_CHECK(parameters.contains(division.parameter), "{}, expected one of the module's own parameters.", where);
    const torch::Tensor& tensor = parameters[division.parameter];
    const auto name = names_.find(tensor.unsafeGetTensorImpl());
    if (name == names_.end()) return;  // it is not sharded
    WholeModel::Division one{.shape = division.shape, .dim = static_cast<size_t>(division.dim), .ranges = {}};
    std::vector<int64_t> expected = division.shape;
    int64_t size = 0;
    for (const auto& [begin, end] : division.ranges) {
      if (!one.ranges.empty() && one.ranges.back().end == begin) {
        one.ranges.back().end = end;
      } else {
        one.ranges.push_back({begin, end});
      }
      size += end - begin;
    }
    FSDP_CHECK(one.dim < expected.size() && (one.dim == 0 || one.ranges.size() == 1),
               "{} with {} ranges along dimension {} of shape {}. Divide along one of its dimensions; several ranges "
               "are for dimension 0 alone.",
               where, one.ranges.size(), division.dim, division.shape);
    expected[one.dim] = size;
    FSDP_CHECK(tensor.sizes() == expected && tensor.is_contiguous(),
               "{}: found shape {} and strides {}, expected {}, row by row, as its ranges say.", where,
               tensor.sizes().vec(), tensor.strides().vec(), expected);
    whole_.divisions.emplace(name->second, std::move(one));
  }

  void add(const BlocksOfModel& blocks, const std::string& prefix) {
    for (const auto& [own, first] : blocks.first_names()) whole_.first_names.emplace(prefix + own, prefix + first);
    for (const std::string& block : blocks.all_blocks()) whole_.blocks.push_back(prefix + block);
  }

  std::unordered_map<const at::TensorImpl*, std::string> names_;
  WholeModel whole_;
};

}  // namespace

WholeModel whole_model_of(const torch::nn::Module& module, const std::vector<NamedUnit>& units) {
  Finding finding(units);
  finding.visit(module, "");
  return std::move(finding).result();
}

}  // namespace fsdp
