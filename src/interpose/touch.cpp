#include "interpose/touch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "interpose/key.h"
#include "interpose/unit_storage.h"

namespace fsdp::interpose {

namespace {

// What a schema says of its arguments, worked out once an operator and thread.
struct Traits {
  bool is_view = false;       // returns only views of arguments: reads no bytes itself
  std::vector<bool> written;  // per argument
  std::string name;
};

Traits make_traits(const c10::FunctionSchema& schema) {
  Traits traits;
  traits.name = schema.operator_name().name;
  for (const c10::Argument& argument : schema.arguments()) {
    traits.written.push_back(argument.alias_info() && argument.alias_info()->isWrite());
  }
  // set_data, and with it module->to(), shows itself by the question whether it may.
  if (traits.name == "aten::_has_compatible_shallow_copy_type") {
    traits.name = "set_data (module->to() or a conversion)";
    traits.written[0] = true;
  }
  traits.is_view = !schema.returns().empty() &&
                   std::none_of(traits.written.begin(), traits.written.end(), [](bool write) { return write; }) &&
                   std::all_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
                     return result.alias_info() && !result.alias_info()->isWrite();
                   });
  return traits;
}

const Traits& traits_of(const c10::OperatorHandle& operation) {
  thread_local std::unordered_map<const c10::FunctionSchema*, Traits> known;
  const c10::FunctionSchema* schema = &operation.schema();
  auto found = known.find(schema);
  return found != known.end() ? found->second : known.emplace(schema, make_traits(*schema)).first->second;
}

// The units that one operator takes, of one model.
struct Touch {
  std::shared_ptr<Link> link;
  c10::SmallVector<int, 4> units;
  c10::SmallVector<int, 2> written;
};
using Touches = c10::SmallVector<Touch, 1>;

void add_unit(Touches& touches, const at::Tensor& tensor, bool written) {
  UnitStorage* storage = UnitStorage::of(tensor);
  if (storage == nullptr) return;
  FSDP_CHECK_UNIT(storage->link()->listener != nullptr, storage->name(),
                  "a parameter was used after its ShardedModel was destroyed. Keep the ShardedModel alive as long as "
                  "the module is called.");
  auto same = [&](const Touch& touch) { return touch.link == storage->link(); };
  auto touch = std::find_if(touches.begin(), touches.end(), same);
  if (touch == touches.end()) {
    touches.push_back({storage->link(), {}, {}});
    touch = touches.end() - 1;
  }
  auto add = [&](auto& units) {
    if (std::find(units.begin(), units.end(), storage->unit()) == units.end()) units.push_back(storage->unit());
  };
  add(touch->units);
  if (written) add(touch->written);
}

void collect(Touches& touches, const c10::IValue& value, bool written) {
  if (value.isTensor()) {
    add_unit(touches, value.toTensor(), written);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) add_unit(touches, tensor, written);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) add_unit(touches, element.toTensor(), written);
    }
  }
}

// Holds the units of an operator while it runs.
class Pins {
 public:
  explicit Pins(Touches& touches, const Traits& traits) : touches_(touches) {
    for (; begun_ < touches_.size(); ++begun_) {
      Touch& touch = touches_[begun_];
      try {
        touch.link->listener->operator_begins(touch.units, touch.written, traits.name.c_str());
      } catch (...) {
        end();
        throw;
      }
    }
  }
  ~Pins() { end(); }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

 private:
  void end() noexcept {
    for (size_t i = 0; i < begun_; ++i) {
      if (Listener* listener = touches_[i].link->listener) listener->operator_ends(touches_[i].units);
    }
  }

  Touches& touches_;
  size_t begun_ = 0;
};

void on_operator(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  const Traits& traits = traits_of(operation);
  if (traits.is_view) {  // one that copies after all, such as reshape, meets us again in its inner operators
    operation.redispatchBoxed(rest, stack);
    return;
  }
  Touches touches;
  auto arguments = torch::jit::last(*stack, traits.written.size());
  for (size_t i = 0; i < arguments.size(); ++i) collect(touches, arguments[i], traits.written[i]);
  Pins pins(touches, traits);
  // One touch an outer operator: what it calls inside works on units that are pinned already.
  c10::impl::ExcludeDispatchKeyGuard inside(kKey);
  operation.redispatchBoxed(rest, stack);
}

}  // namespace

void ensure_fallback() {}

}  // namespace fsdp::interpose

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fsdp::interpose::on_operator>());
}
