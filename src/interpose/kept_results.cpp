#include "interpose/kept_results.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "interpose/computation.h"
#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

// By the names under which they come below autograd: linear, matmul and the like are made of these.
const std::unordered_set<std::string>& products() {
  static const std::unordered_set<std::string> names{"aten::mm",
                                                     "aten::addmm",
                                                     "aten::bmm",
                                                     "aten::baddbmm",
                                                     "aten::convolution",
                                                     "aten::_scaled_dot_product_flash_attention_for_cpu",
                                                     "aten::_scaled_dot_product_flash_attention",
                                                     "aten::_scaled_dot_product_efficient_attention",
                                                     "aten::_scaled_dot_product_cudnn_attention"};
  return names;
}

}  // namespace

// The facts of a schema, worked out once per operator and thread.
struct ResultTraits {
  std::string name;
  bool is_product = false;
  bool may_be_kept = false;
  bool reads = true;                   // more than sizes
  std::optional<size_t> dropout = {};  // the argument with its probability
  std::vector<size_t> written = {};    // arguments
  bool completes = false;              // what was kept: it writes one argument, and returns that
};

namespace {

ResultTraits make_result_traits(const c10::OperatorHandle& operation) {
  const c10::FunctionSchema& schema = operation.schema();
  const std::string& name = schema.operator_name().name;
  ResultTraits traits{.name = name};
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite()) traits.written.push_back(i);
    if (argument.name() == "dropout_p") traits.dropout = i;
  }
  const auto& returns = schema.returns();
  traits.is_product = traits.written.empty() && products().contains(name);
  const bool makes_views = traits.written.empty() && !returns.empty() &&
                           std::ranges::all_of(returns, [](const auto& result) { return result.alias_info(); });
  traits.reads = !makes_views && name != "aten::_unsafe_view" && name != "aten::_reshape_alias";
  const bool is_random = operation.hasTag(at::Tag::nondeterministic_seeded);
  traits.completes = traits.written.size() == 1 && returns.size() == 1 && returns[0].alias_info() && !is_random;
  const bool returns_tensors = !returns.empty() && std::ranges::all_of(returns, [](const auto& result) {
    return result.type()->kind() == c10::TypeKind::TensorType;
  });
  traits.may_be_kept = traits.is_product || (traits.written.empty() && traits.reads && !is_random && returns_tensors);
  return traits;
}

const ResultTraits& result_traits_of(const c10::OperatorHandle& operation) {
  thread_local ska::flat_hash_map<const c10::FunctionSchema*, std::unique_ptr<ResultTraits>> known;
  std::unique_ptr<ResultTraits>& traits = known[&operation.schema()];
  if (!traits) traits = std::make_unique<ResultTraits>(make_result_traits(operation));
  return *traits;
}

thread_local KeptResultsScope* innermost_results = nullptr;

// Shares elements with the tensor and knows nothing of its graph, nor of its version.
c10::IValue alias_of(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? c10::IValue(value.toTensor().variable_data()) : value;
}

bool shares_memory(const c10::IValue& value, const torch::Tensor& tensor) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage() && tensor.defined() &&
         tensor.has_storage() && value.toTensor().storage().is_alias_of(tensor.storage());
}

}  // namespace

void KeptResultList::append(const std::vector<c10::IValue>& results) {
  Entry& entry = entries_.emplace_back();
  for (const c10::IValue& result : results) {
    entry.results.push_back(alias_of(result));
    if (result.isTensor() && result.toTensor().defined()) entry.watched.emplace_back(entry.results.back().toTensor());
  }
}

std::vector<c10::IValue> KeptResultList::at(size_t number) const {
  if (number >= entries_.size()) return {};
  std::vector<c10::IValue> results;
  for (const c10::IValue& kept : entries_[number].results) results.push_back(alias_of(kept));
  return results;
}

bool KeptResultList::holds(size_t number, const torch::Tensor& tensor) const {
  return number < entries_.size() &&
         std::ranges::any_of(entries_[number].results, [&](const auto& kept) { return shares_memory(kept, tensor); });
}

// One operator in the innermost scope.
class ComputationInScope {
 public:
  ComputationInScope(Computation& computation, KeptResultsScope& scope)
      : computation_(computation),
        scope_(scope),
        list_(*scope.list_),
        traits_(result_traits_of(computation.operation())) {}

  void perform() { scope_.run_ == KeptResultsScope::Run::First ? perform_first() : perform_again(); }

 private:
  const c10::IValue& argument(size_t i) const { return computation_.argument(i); }
  bool is_chosen() const {
    return list_.choice() ? traits_.may_be_kept && list_.choice()(traits_.name) : traits_.is_product;
  }
  // A second run that does not draw the dropout's random numbers would draw others afterwards.
  bool is_kept() const { return is_chosen() && (!traits_.dropout || argument(*traits_.dropout).toDouble() == 0); }
  bool writes(size_t number) const {
    return std::ranges::any_of(traits_.written, [&](size_t i) {
      const c10::IValue& written = argument(i);
      return written.isTensor() && list_.holds(number, written.toTensor());
    });
  }

  void perform_first() {
    if (is_kept()) {
      list_.compute(computation_);
      list_.add(computation_.results());
      scope_.latest_ = list_.size() - 1;
      return;
    }
    const bool completes = scope_.latest_ && traits_.completes && writes(*scope_.latest_);
    if (!completes) {
      for (size_t i : traits_.written) {
        if (argument(i).isTensor()) list_.forget(argument(i).toTensor());
      }
      if (traits_.reads) scope_.latest_.reset();
    }
    list_.compute(computation_);
    if (completes) list_.completes(*scope_.latest_);
  }

  void perform_again() {
    if (is_kept()) return take();
    const bool is_done =
        traits_.completes && std::ranges::any_of(scope_.given_, [&](size_t number) { return writes(number); });
    is_done ? computation_.give({argument(traits_.written[0])}) : computation_.compute();
  }

  void take() {
    const size_t number = scope_.next_++;
    std::vector<c10::IValue> results = list_.at(number);
    if (results.empty()) return computation_.compute();
    scope_.given_.push_back(number);
    computation_.give(std::move(results));
  }

  Computation& computation_;
  KeptResultsScope& scope_;
  ResultList& list_;
  const ResultTraits& traits_;
};

namespace {

void on_computation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Computation computation(operation, keys, *stack);
  if (innermost_results == nullptr) return computation.compute();
  ComputationInScope(computation, *innermost_results).perform();
}

// A kernel on the key for every operator with kernels for devices. Some operators have a kernel for all devices besides
// this device's. A fallback would not see them, and LibTorch would choose the former: other bits, as for
// native_layer_norm.
void ensure_computations_are_seen() {
  static const torch::Library* const for_good = [] {
    auto* library = new torch::Library(torch::Library::IMPL, "aten", kResultsKey, __FILE__, __LINE__);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const auto operation = dispatcher.findSchema(name);
      const bool is_made_of_others =
          operation && operation->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
      if (!operation || is_made_of_others || !name.name.starts_with("aten::")) continue;
      library->impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&on_computation>());
    }
    return library;
  }();
  static_cast<void>(for_good);
}

}  // namespace

KeptResultsScope::KeptResultsScope(ResultList* list, Run run)
    : list_(list),
      run_(run),
      outer_(innermost_results),
      was_included_(c10::impl::tls_is_dispatch_key_included(kResultsKey)) {
  if (list != nullptr) ensure_computations_are_seen();
  innermost_results = list == nullptr ? nullptr : this;
  c10::impl::tls_set_dispatch_key_included(kResultsKey, list != nullptr);
}

KeptResultsScope::~KeptResultsScope() {
  c10::impl::tls_set_dispatch_key_included(kResultsKey, was_included_);
  innermost_results = outer_;
}

}  // namespace fsdp::interpose
