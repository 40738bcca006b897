#include "api/tensor_parallel/tensor_axis.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "engine/model.h"
#include "optim/clip_plain.h"
#include "world/state.h"

namespace fsdp {

namespace {

struct DividedParameter {
  torch::Tensor tensor;
  ParameterDivision division;
};

template <typename Visit>
void visit_divided(const torch::nn::Module& module, const Visit& visit) {
  if (const auto* divided = dynamic_cast<const DividedModule*>(&module)) visit(module, *divided);
  for (const auto& child : module.children()) visit_divided(*child, visit);
}

std::vector<DividedParameter> parameters_over(const World& axis, const torch::nn::Module& root) {
  std::vector<DividedParameter> all;
  visit_divided(root, [&](const torch::nn::Module& module, const DividedModule& divided) {
    if (job_ranks(divided.axis()) != job_ranks(axis)) return;
    const auto parameters = module.named_parameters(/*recurse=*/false);
    for (ParameterDivision& one : divided.divisions()) {
      const torch::Tensor* tensor = parameters.find(one.parameter);
      FSDP_CHECK(tensor != nullptr, "divisions(): {} names the parameter {}, which it does not have.", module.name(),
                 one.parameter);
      all.push_back({*tensor, std::move(one)});
    }
  });
  return all;
}

// Begin and end of all ranges of all parameters, one after the other.
torch::Tensor message_of(const std::vector<DividedParameter>& parameters) {
  std::vector<int64_t> ends;
  for (const DividedParameter& one : parameters) {
    for (const auto& [begin, end] : one.division.ranges) ends.insert(ends.end(), {begin, end});
  }
  return torch::tensor(ends, torch::kInt64);
}

// `range` begins at index `own` of the rank's tensor. Adds what `other` has of it.
void add_shared(const DividedParameter& parameter, layout::Range range, int64_t own, layout::Range other,
                std::vector<layout::Range>& shared) {
  const layout::Range both = layout::intersect(range, other);
  if (both.numel() == 0) return;
  const torch::Tensor& tensor = parameter.tensor;
  FSDP_CHECK(parameter.division.dim == 0 && tensor.is_contiguous(),
             "divisions(): two ranks hold the same elements of {} along dimension {}, expected it along dimension 0 of "
             "a contiguous parameter alone.",
             parameter.division.parameter, parameter.division.dim);
  const int64_t row = tensor.numel() / tensor.size(0), first = own + both.begin - range.begin;
  shared.push_back({first * row, (first + both.numel()) * row});
}

}  // namespace

std::vector<int> job_ranks(const World& axis) { return axis.state()->world_ranks(); }

std::vector<World> tensor_worlds_of(const torch::nn::Module& module) {
  std::vector<World> all;
  visit_divided(module, [&](const torch::nn::Module& layer, const DividedModule& divided) {
    const std::vector<int> ranks = job_ranks(divided.axis());
    if (ranks.size() <= 1) return;
    for (const World& other : all) {
      const std::vector<int> others = job_ranks(other);
      if (others == ranks) return;
      const auto common = std::ranges::count_if(ranks, [&](int rank) { return std::ranges::count(others, rank) > 0; });
      FSDP_CHECK(common == 1,
                 "{}: it is divided over ranks {}, and another layer over ranks {}, expected the same ranks, or this "
                 "rank alone in common. Use one axis of a mesh for both.",
                 layer.name(), fmt::join(ranks, ", "), fmt::join(others, ", "));
    }
    all.push_back(divided.axis());
  });
  return all;
}

TensorAxis::TensorAxis(World axis, const torch::nn::Module& module) : axis_(std::move(axis)) {
  const std::vector<DividedParameter> parameters = parameters_over(axis_, module);
  const std::vector<torch::Tensor> ends = axis_.all_gather(message_of(parameters));
  int64_t at = 0;
  for (const DividedParameter& one : parameters) {
    Divided& divided = divided_[one.tensor.unsafeGetTensorImpl()];
    divided = {.division = {.shape = one.division.shape, .dim = one.division.dim, .ranges = {}}, .shared = {}};
    divided.division.ranges.resize(ends.size());
    int64_t own = 0;
    for (const auto& [begin, end] : one.division.ranges) {
      for (int rank = 0; rank < axis_.size(); ++rank) {
        const int64_t* theirs = ends[rank].const_data_ptr<int64_t>() + at;
        divided.division.ranges[rank].push_back({theirs[0], theirs[1]});
        if (rank < axis_.rank()) add_shared(one, {begin, end}, own, {theirs[0], theirs[1]}, divided.shared);
      }
      own += end - begin;
      at += 2;
    }
  }
}

std::vector<layout::Range> TensorAxis::counted_elsewhere(const torch::Tensor& parameter) const {
  const auto found = divided_.find(parameter.unsafeGetTensorImpl());
  if (found != divided_.end()) return found->second.shared;
  return axis_.rank() == 0 ? std::vector<layout::Range>() : std::vector<layout::Range>{{0, parameter.numel()}};
}

const engine::AxisDivision* TensorAxis::division_of(const torch::Tensor& parameter) const {
  const auto found = divided_.find(parameter.unsafeGetTensorImpl());
  return found == divided_.end() ? nullptr : &found->second.division;
}

void TensorAxis::exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from) {
  axis_.state()->group().tensors().exchange(to, from, "exchanges parts of matrices");
}

std::vector<std::shared_ptr<engine::DividingAxis>> tensor_axes_of(const torch::nn::Module& module) {
  std::vector<std::shared_ptr<engine::DividingAxis>> all;
  for (World& axis : tensor_worlds_of(module)) all.push_back(std::make_shared<TensorAxis>(axis, module));
  return all;
}

double clip_grad_norm_(const torch::nn::Module& module, double max_norm, double norm_type) {
  std::vector<torch::Tensor> parameters;  // a tied one once
  std::unordered_set<const at::TensorImpl*> known;
  for (const torch::Tensor& parameter : module.parameters()) {
    FSDP_CHECK(engine::Model::of(parameter) == nullptr,
               "clip_grad_norm_: the module is sharded. Call clip_grad_norm_ of its ShardedModel.");
    if (known.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
  }
  const auto axes = tensor_axes_of(module);
  return optim::clip_plain_gradients(parameters, {axes.begin(), axes.end()}, max_norm, norm_type);
}

}  // namespace fsdp
