#include "deferred/operator_traits.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace fsdp::deferred {

const std::string& name_of(const c10::OperatorHandle& operation) { return operation.schema().name(); }

bool leaves_bytes_alone(const c10::OperatorHandle& operation) {
  static const std::unordered_set<std::string> names{"aten::requires_grad_",
                                                     "aten::detach_",
                                                     "aten::retain_grad",
                                                     "aten::is_leaf",
                                                     "aten::output_nr",
                                                     "aten::_version",
                                                     "aten::set_data",
                                                     "aten::set_",
                                                     "aten::as_strided_",
                                                     "aten::squeeze_",
                                                     "aten::swapaxes_",
                                                     "aten::swapdims_",
                                                     "aten::t_",
                                                     "aten::transpose_",
                                                     "aten::unsqueeze_",
                                                     "aten::is_same_size",
                                                     "aten::_has_compatible_shallow_copy_type"};
  return names.contains(operation.schema().name());
}

bool makes_empty(const c10::OperatorHandle& operation) {
  static const std::unordered_set<std::string> names{"aten::empty",         "aten::empty_like",
                                                     "aten::empty_strided", "aten::empty_permuted",
                                                     "aten::new_empty",     "aten::new_empty_strided"};
  return names.contains(operation.schema().name());
}

bool makes_of_size(const c10::OperatorHandle& operation) {
  const auto& arguments = operation.schema().arguments();
  return !arguments.empty() && arguments[0].name() == "size";
}

bool draws_numbers(const c10::OperatorHandle& operation) { return operation.hasTag(at::Tag::nondeterministic_seeded); }

bool replaces_first(const c10::OperatorHandle& operation) {
  static const std::unordered_set<std::string> names{"aten::uniform_",     "aten::normal_",    "aten::random_",
                                                     "aten::exponential_", "aten::cauchy_",    "aten::log_normal_",
                                                     "aten::geometric_",   "aten::bernoulli_", "aten::fill_",
                                                     "aten::zero_",        "aten::copy_"};
  return names.contains(operation.schema().name());
}

bool gives_values(const c10::OperatorHandle& operation) {
  return std::ranges::any_of(operation.schema().returns(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType && kind != c10::TypeKind::OptionalType;
  });
}

bool gives_what_it_writes(const c10::OperatorHandle& operation) {
  return std::ranges::all_of(operation.schema().returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && result.alias_info()->isWrite();
  });
}

bool writes(const c10::OperatorHandle& operation, size_t argument) {
  const auto* alias = operation.schema().arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

}  // namespace fsdp::deferred
