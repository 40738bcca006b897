#include "api/aliases.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "files/wrapped.h"
#include "interpose/storage_facts.h"

namespace fsdp {

namespace {

using interpose::StorageFacts;

constexpr ptrdiff_t kMostNames = 5;  // of parameters, in a warning

// Tensors that may hold a storage: those of the module, and what autograd keeps for them.
class KnownTensors {
 public:
  void add(const torch::Tensor& tensor) {
    if (!tensor.defined()) return;
    of_storage_[interpose::storage_facts(tensor).storage].insert(tensor.unsafeGetTensorImpl());
    if (!tensor.is_view()) return;
    Base& base = bases_[tensor._base().unsafeGetTensorImpl()];
    base.holders = tensor._base().use_count();
    base.views.insert(tensor.unsafeGetTensorImpl());
  }

  bool others_hold(const torch::Tensor& tensor) const {
    const StorageFacts facts = interpose::storage_facts(tensor);
    const auto& known = of_storage_.at(facts.storage);
    return facts.holders > known.size() + bases_of(known);
  }

 private:
  using Impls = std::unordered_set<const at::TensorImpl*>;

  struct Base {
    size_t holders = 0;
    Impls views = {};
  };

  // A view holds the tensor that it was made of. Where nothing else does, that is out of reach.
  size_t bases_of(const Impls& known) const {
    return std::ranges::count_if(bases_, [&](const auto& one) {
      const auto& [tensor, base] = one;
      return known.contains(*base.views.begin()) && !known.contains(tensor) && base.holders <= base.views.size();
    });
  }

  std::unordered_map<const void*, Impls> of_storage_;
  std::unordered_map<const at::TensorImpl*, Base> bases_;
};

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(std::ssize(names), kMostNames));
  const size_t rest = names.size() - first.size();
  return fmt::format("{}{}", fmt::join(first, ", "), rest > 0 ? fmt::format(" and {} more", rest) : "");
}

}  // namespace

void warn_of_aliases(const std::vector<NamedUnit>& units, const NamedTensors& ignored) {
  KnownTensors known;
  const auto add = [&](const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) known.add(tensor);
  };
  for (const NamedUnit& unit : units) {
    add(unit.parameters);
    add(unit.buffers);
  }
  add(ignored);
  std::vector<std::string> held;
  for (const NamedUnit& unit : units) {
    for (const auto& [name, tensor] : unit.parameters) {
      if (tensor.numel() > 0 && known.others_hold(tensor)) held.push_back(name);
    }
  }
  if (held.empty()) return;
  files::show_error(
      fmt::format("{}warning: shard: other tensors hold the memory of {}: a detach(), a view or a set_data() that was "
                  "made before, or the graph of an earlier forward. They keep the values of now, since training "
                  "changes the shards alone, and the memory stays. Make such tensors after fsdp::shard, or of a "
                  "clone(); drop the results of earlier forwards (docs/errors.md).\n",
                  message_prefix(), listed(held)));
}

}  // namespace fsdp
