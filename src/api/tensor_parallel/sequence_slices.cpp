#include <vector>

#include "api/tensor_parallel/held_value.h"
#include "api/tensor_parallel/part_sum.h"
#include "api/tensor_parallel/parts.h"
#include "fsdp/tensor_parallel.h"

namespace fsdp {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct SequenceSlice : torch::autograd::Function<SequenceSlice> {
  static Tensor forward(AutogradContext* context, const Tensor& whole, const World& axis) {
    HeldValue<World>::put(context, axis);
    const int64_t length = whole.size(1) / axis.size();
    return whole.narrow(1, axis.rank() * length, length).clone(torch::MemoryFormat::Contiguous);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {whole_sequence(gradients[0], HeldValue<World>::get(context)), Tensor()};
  }
};

// [...] to [parts of this rank, ...], whose gradients are added up over the parts of all ranks.
struct OncePerPart : torch::autograd::Function<OncePerPart> {
  static Tensor forward(AutogradContext* context, const Tensor& parameter, const World& axis, int64_t count) {
    HeldValue<World>::put(context, axis);
    std::vector<int64_t> sizes = parameter.sizes().vec();
    sizes.insert(sizes.begin(), count);
    return parameter.unsqueeze(0).expand(sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    std::vector<Tensor> parts;
    for (const Tensor& part : gradients[0].unbind(0)) parts.push_back(part.clone(torch::MemoryFormat::Contiguous));
    return {sum_over_parts(parts, HeldValue<World>::get(context)), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor sequence_slice(const Tensor& whole, const World& axis) {
  check_sequence("sequence_slice", whole, axis.size());
  return axis.size() == 1 ? whole : SequenceSlice::apply(whole, axis);
}

Tensor on_sequence_slices(const Tensor& input, const std::vector<Tensor>& parameters, const World& axis,
                          const TensorParallelOptions& parallel,
                          const std::function<Tensor(const Tensor&, const std::vector<Tensor>&)>& layer) {
  if (!parallel.sequence_parallel) return layer(input, parameters);
  const AxisParts parts = parts_of("on_sequence_slices", axis, parallel.parts);
  check_sequence("on_sequence_slices", input, parts.count);
  std::vector<Tensor> spread, results;
  for (const Tensor& parameter : parameters)  // undefined: a norm without a bias
    spread.push_back(parameter.defined() ? OncePerPart::apply(parameter, axis, parts.count) : Tensor());
  const int64_t length = input.size(1) / parts.count;
  for (int64_t part = 0; part < parts.count; ++part) {
    std::vector<Tensor> own;
    for (const Tensor& parameter : spread) own.push_back(parameter.defined() ? parameter.select(0, part) : Tensor());
    results.push_back(layer(input.narrow(1, part * length, length).contiguous(), own));
  }
  return results.size() == 1 ? results[0] : torch::cat(results, 1);
}

}  // namespace fsdp
