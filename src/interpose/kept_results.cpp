#include "interpose/kept_results.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

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

void KeptResultList::add(const std::vector<c10::IValue>& results) {
  Entry entry{.results = {}, .watched = {}, .marks = {}, .saved = saved_};
  for (const c10::IValue& result : results) {
    const bool has_storage = result.isTensor() && result.toTensor().defined() && result.toTensor().has_storage();
    if (measures()) {
      if (has_storage) entry.marks.emplace_back(result.toTensor());
      continue;
    }
    entry.results.push_back(alias_of(result));
    if (result.isTensor() && result.toTensor().defined()) entry.watched.emplace_back(entry.results.back().toTensor());
  }
  entries_.push_back(std::move(entry));
}

void KeptResultList::Entry::forget() {
  results.clear();
  watched.clear();
  marks.clear();
}

void KeptResultList::count_saved(size_t tensors) {
  saved_ = tensors;
  if (tensors <= most_saved_) return;
  most_saved_ = tensors;
  until_saved_ = seconds_;
}

double KeptResultList::seconds_of_kept() const {
  double seconds = 0;
  for (const Entry& entry : entries_) seconds += entry.is_kept() ? entry.seconds : 0;
  return seconds;
}

StorageMarks KeptResultList::marks() const {
  StorageMarks marks;
  for (const Entry& entry : entries_) marks.insert(marks.end(), entry.marks.begin(), entry.marks.end());
  return marks;
}

void KeptResultList::forget_behind(size_t tensors) {
  for (Entry& entry : entries_) {
    if (entry.saved >= tensors) entry.forget();
  }
}

std::vector<c10::IValue> KeptResultList::at(size_t number) const {
  if (number >= entries_.size()) return {};
  std::vector<c10::IValue> results;
  for (const c10::IValue& kept : entries_[number].results) results.push_back(alias_of(kept));
  return results;
}

bool KeptResultList::holds(size_t number, const torch::Tensor& tensor) const {
  if (number >= entries_.size() || !tensor.defined() || !tensor.has_storage()) return false;
  const Entry& entry = entries_[number];
  const auto is_marked = [&](const StorageMark& mark) {
    return mark.address() == tensor.storage().unsafeGetStorageImpl();
  };
  return std::ranges::any_of(entry.results, [&](const auto& kept) { return shares_memory(kept, tensor); }) ||
         std::ranges::any_of(entry.marks, is_marked);
}

void KeptResultList::forget(const torch::Tensor& tensor) {
  for (size_t number = 0; number < entries_.size(); ++number) {
    if (holds(number, tensor)) entries_[number].forget();
  }
}

// One operator in the innermost scope.
class Computation {
 public:
  Computation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack& stack)
      : operation_(operation), keys_(keys), stack_(stack), traits_(result_traits_of(operation)) {}

  void perform(KeptResultsScope& scope) {
    scope.run_ == KeptResultsScope::Run::First ? perform_first(scope) : perform_again(scope);
  }
  void compute() {
    const c10::impl::ExcludeDispatchKeyGuard inside(kResultsKey);
    operation_.redispatchBoxed(keys_ & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kResultsKey), &stack_);
  }

 private:
  const c10::IValue& argument(size_t i) const { return torch::jit::peek(stack_, i, arguments()); }
  size_t arguments() const { return operation_.schema().arguments().size(); }
  bool is_chosen(const KeptResultList& list) const {
    return list.choice() ? traits_.may_be_kept && list.choice()(traits_.name) : traits_.is_product;
  }
  // A second run that does not draw the dropout's random numbers would draw others afterwards.
  bool is_kept(const KeptResultList& list) const {
    return is_chosen(list) && (!traits_.dropout || argument(*traits_.dropout).toDouble() == 0);
  }
  bool writes(const KeptResultList& list, size_t number) const {
    return std::ranges::any_of(traits_.written, [&](size_t i) {
      const c10::IValue& written = argument(i);
      return written.isTensor() && list.holds(number, written.toTensor());
    });
  }

  // Returns the seconds that it took, where the list measures.
  double compute_for(KeptResultList& list) {
    if (!list.measures()) {
      compute();
      return 0;
    }
    const std::optional<c10::Device> device = device_to_wait_for();
    const auto begin = time_behind(device);
    compute();
    const double seconds = std::chrono::duration<double>(time_behind(device) - begin).count();
    list.took(seconds);
    return seconds;
  }
  // Computes beside the thread that calls it.
  std::optional<c10::Device> device_to_wait_for() const {
    for (size_t i = 0; i < arguments(); ++i) {
      const c10::IValue& value = argument(i);
      if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu())
        return value.toTensor().device();
    }
    return std::nullopt;
  }
  static std::chrono::steady_clock::time_point time_behind(std::optional<c10::Device> device) {
    if (device) c10::impl::VirtualGuardImpl(device->type()).synchronizeDevice(device->index());
    return std::chrono::steady_clock::now();
  }

  void perform_first(KeptResultsScope& scope) {
    KeptResultList& list = *scope.list_;
    if (is_kept(list)) {
      const double seconds = compute_for(list);
      const auto results = torch::jit::last(stack_, operation_.schema().returns().size());
      list.add(results.vec());
      scope.latest_ = list.size() - 1;
      list.took(seconds, *scope.latest_);
      return;
    }
    const bool completes = scope.latest_ && traits_.completes && writes(list, *scope.latest_);
    if (!completes) {
      for (size_t i : traits_.written) {
        if (argument(i).isTensor()) list.forget(argument(i).toTensor());
      }
      if (traits_.reads) scope.latest_.reset();
    }
    const double seconds = compute_for(list);
    if (completes) list.took(seconds, *scope.latest_);
  }

  void perform_again(KeptResultsScope& scope) {
    if (is_kept(*scope.list_)) return take(scope);
    const bool is_done = traits_.completes &&
                         std::ranges::any_of(scope.given_, [&](size_t number) { return writes(*scope.list_, number); });
    if (!is_done) return compute();
    const c10::IValue written = argument(traits_.written[0]);
    torch::jit::drop(stack_, arguments());
    stack_.push_back(written);
  }

  void take(KeptResultsScope& scope) {
    const size_t number = scope.next_++;
    std::vector<c10::IValue> results = scope.list_->at(number);
    if (results.empty()) return compute();
    scope.given_.push_back(number);
    torch::jit::drop(stack_, arguments());
    for (c10::IValue& result : results) stack_.push_back(std::move(result));
  }

  const c10::OperatorHandle& operation_;
  c10::DispatchKeySet keys_;
  torch::jit::Stack& stack_;
  const ResultTraits& traits_;
};

namespace {

void on_computation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Computation computation(operation, keys, *stack);
  if (innermost_results == nullptr) return computation.compute();
  computation.perform(*innermost_results);
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

KeptResultsScope::KeptResultsScope(KeptResultList* list, Run run)
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
