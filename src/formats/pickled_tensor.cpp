#include "formats/pickled_tensor.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/error.h"
#include "files/printable.h"
#include "formats/element_types.h"

namespace fsdp::formats {

namespace {

using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr std::string_view kRebuild2 = "torch._utils._rebuild_tensor_v2", kRebuild3 = "torch._utils._rebuild_tensor_v3",
                           kParameter = "torch._utils._rebuild_parameter",
                           kParameterWithState = "torch._utils._rebuild_parameter_with_state",
                           kUntyped = "torch.storage.UntypedStorage", kModules = "__torch__.";

// Beside storages and dtypes. The values of all but the first few are not looked at.
constexpr std::array<std::string_view, 17> kAllowed = {kRebuild2,
                                                       kRebuild3,
                                                       kParameter,
                                                       kParameterWithState,
                                                       kUntyped,
                                                       "collections.OrderedDict",
                                                       "torch.Size",
                                                       "torch.device",
                                                       "torch.serialization._get_layout",
                                                       "_codecs.encode",
                                                       "builtins.set",
                                                       "__builtin__.set",
                                                       "torch.jit._pickle.build_intlist",
                                                       "torch.jit._pickle.build_doublelist",
                                                       "torch.jit._pickle.build_boollist",
                                                       "torch.jit._pickle.build_tensorlist",
                                                       "torch.jit._pickle.restore_type_tag"};

constexpr size_t kMostDimensions = 64;  // of LibTorch

void check(bool condition, const std::string& name, const char* what) {
  FSDP_CHECK(condition, "{} is damaged: a tensor in it {}", name, what);
}

// ("storage", torch.FloatStorage, "0", "cpu", number of elements)
void read_storage(const Pickle& pickle, const Value& value, const std::string& name, PickledTensor& tensor,
                  std::optional<torch::ScalarType> dtype) {
  check(value.kind == Kind::Persistent, name, "has no storage");
  const Value& id = pickle.at(value.items[0]);
  check(id.kind == Kind::Tuple && id.items.size() >= 5, name, "has a storage that is not described");
  const Value &word = pickle.at(id.items[0]), &storage_class = pickle.at(id.items[1]), &key = pickle.at(id.items[2]),
              &numel = pickle.at(id.items[4]);
  check(word.text == "storage" && key.kind == Kind::Text && numel.kind == Kind::Int && numel.number >= 0, name,
        "has a storage that is not described");
  const bool is_untyped = storage_class.text == kUntyped;
  const auto type = is_untyped ? dtype : type_of_storage(storage_class.text);
  FSDP_CHECK(type, "{} has a tensor of {}, a dtype that is not read here. Convert it to another one where it was made.",
             name, files::printable(storage_class.text));
  tensor.type = *type;
  tensor.storage = std::string(key.text);
  tensor.storage_numel = numel.number;
  if (!is_untyped) return;
  const auto width = static_cast<int64_t>(c10::elementSize(*type));  // such storages count bytes
  check(numel.number % width == 0, name, "has a part of an element");
  tensor.storage_numel /= width;
}

void check_extent(const PickledTensor& tensor, const std::string& name) {
  check(tensor.shape.size() == tensor.strides.size() && tensor.shape.size() <= kMostDimensions, name,
        "has another number of strides than of sizes");
  check(tensor.offset >= 0, name, "begins before its storage");
  check(bytes_of(tensor.type, tensor.shape).has_value() && bytes_of(tensor.type, {tensor.storage_numel}), name,
        "has more elements than memory can hold");
  FSDP_CHECK(tensor.numel() <= tensor.storage_numel,
             "{} has a tensor of shape {}, more elements than the {} that are stored: it is expanded. Save its "
             "contiguous() instead.",
             name, tensor.shape, tensor.storage_numel);
  check(checked_add(tensor.offset, tensor.span()) <= tensor.storage_numel, name, "ends behind its storage");
}

PickledTensor rebuilt(const Pickle& pickle, const Value& call, const std::string& name) {
  const auto& arguments = pickle.arguments(call);
  const bool is_third = pickle.called(call) == kRebuild3;
  check(arguments.size() >= (is_third ? 7u : 4u), name, "is not described");
  std::optional<torch::ScalarType> dtype;
  if (is_third) {
    dtype = type_of_dtype(pickle.at(arguments[6]).text);
    FSDP_CHECK(dtype, "{} has a tensor of {}, a dtype that is not read here", name,
               files::printable(pickle.at(arguments[6]).text));
  }
  PickledTensor tensor;
  read_storage(pickle, pickle.at(arguments[0]), name, tensor, dtype);
  const Value& offset = pickle.at(arguments[1]);
  check(offset.kind == Kind::Int, name, "has no offset");
  tensor.offset = offset.number;
  tensor.shape = numbers_in(pickle, pickle.at(arguments[2]), name);
  tensor.strides = numbers_in(pickle, pickle.at(arguments[3]), name);
  // The conjugate and negative bits of complex numbers.
  check(is_third || arguments.size() < 7 || pickle.at(arguments[6]).items.empty(), name, "is not stored as it is");
  check_extent(tensor, name);
  return tensor;
}

}  // namespace

int64_t PickledTensor::numel() const {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

int64_t PickledTensor::span() const {
  if (numel() == 0) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) last = checked_add(last, checked_mul(shape[i] - 1, strides[i]));
  return checked_add(last, 1);
}

bool PickledTensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] > 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::optional<PickledTensor> pickled_tensor(const Pickle& pickle, const Value& value, const std::string& name) {
  const Value* call = &value;
  for (std::string_view called = pickle.called(*call); called == kParameter || called == kParameterWithState;
       called = pickle.called(*call)) {
    check(!pickle.arguments(*call).empty(), name, "is not described");
    call = &pickle.at(pickle.arguments(*call)[0]);
    check(pickle.called(*call) == kRebuild2 || pickle.called(*call) == kRebuild3, name, "is no plain tensor");
  }
  const std::string_view called = pickle.called(*call);
  if (called != kRebuild2 && called != kRebuild3) return std::nullopt;
  return rebuilt(pickle, *call, name);
}

bool is_module_class(std::string_view global) { return global.starts_with(kModules); }

bool is_allowed_in_state(std::string_view global) {
  return std::ranges::find(kAllowed, global) != kAllowed.end() || is_module_class(global) || type_of_storage(global) ||
         type_of_dtype(global);
}

std::vector<int64_t> numbers_in(const Pickle& pickle, const Value& value, const std::string& name) {
  const auto& arguments = pickle.arguments(value);
  const Value& tuple = pickle.called(value) == "torch.Size" && !arguments.empty() ? pickle.at(arguments[0]) : value;
  FSDP_CHECK(tuple.kind == Kind::Tuple && tuple.items.size() <= kMostDimensions,
             "{} is damaged: found something else where a shape belongs", name);
  std::vector<int64_t> numbers;
  for (const Pickle::Id id : tuple.items) {
    const Value& number = pickle.at(id);
    FSDP_CHECK(number.kind == Kind::Int && number.number >= 0, "{} is damaged: a shape has something else than sizes",
               name);
    numbers.push_back(number.number);
  }
  return numbers;
}

}  // namespace fsdp::formats
