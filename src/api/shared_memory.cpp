#include "api/shared_memory.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "base/error.h"
#include "fsdp/deferred_init.h"
#include "interpose/piece_storage.h"
#include "interpose/storage_facts.h"

namespace fsdp {

namespace {

using interpose::StorageFacts;

enum class Role { Parameter, Buffer, Ignored };

const char* name_of(Role role) {
  return role == Role::Parameter ? "parameter" : role == Role::Buffer ? "buffer" : "ignored tensor";
}

// A tensor, and where its elements lie.
struct Place {
  Role role;
  size_t number;  // among all
  std::string name;
  torch::Tensor tensor;
  const void* space;     // in which addresses compare: a deferred storage; null: this process
  uintptr_t begin, end;  // in bytes
};

int64_t numel_from_first_to_last(const torch::Tensor& tensor) {
  int64_t numel = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) numel += (tensor.size(dim) - 1) * tensor.stride(dim);
  return numel;
}

// Dense tensors that have elements, and bytes of their own or none yet.
bool has_place(const torch::Tensor& tensor, const StorageFacts& facts) {
  if (facts.storage == nullptr || tensor.layout() != torch::kStrided || tensor.numel() == 0) return false;
  return is_deferred(tensor) || facts.address != 0;
}

Place place_of(Role role, size_t number, const std::string& name, const torch::Tensor& tensor,
               const StorageFacts& facts) {
  const uintptr_t begin = facts.address + tensor.storage_offset() * tensor.element_size();
  const uintptr_t end = begin + numel_from_first_to_last(tensor) * tensor.element_size();
  return {role, number, name, tensor, facts.address == 0 ? facts.storage : nullptr, begin, end};
}

std::vector<Place> places_of(const std::vector<NamedUnit>& units, const NamedTensors& ignored) {
  std::vector<Place> places;
  const auto add = [&](Role role, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const StorageFacts facts = interpose::storage_facts(tensor);
      if (has_place(tensor, facts)) places.push_back(place_of(role, places.size(), name, tensor, facts));
    }
  };
  for (const NamedUnit& unit : units) {
    add(Role::Parameter, unit.parameters);
    add(Role::Buffer, unit.buffers);
  }
  add(Role::Ignored, ignored);
  return places;
}

// One flag for each element from `begin` on: those of the tensor are set.
torch::Tensor mark(const Place& place, uintptr_t begin, uintptr_t end) {
  const auto size = static_cast<uintptr_t>(place.tensor.element_size());
  torch::Tensor flags = torch::zeros({static_cast<int64_t>((end - begin) / size)}, torch::kBool);
  flags.as_strided(place.tensor.sizes(), place.tensor.strides(), static_cast<int64_t>((place.begin - begin) / size))
      .fill_(true);
  return flags;
}

// Returns whether a parameter and another tensor, whose places meet, share a byte.
bool share_bytes(const Place& parameter, const Place& other) {
  if (parameter.tensor.is_non_overlapping_and_dense() && other.tensor.is_non_overlapping_and_dense()) return true;
  const uintptr_t begin = std::min(parameter.begin, other.begin), end = std::max(parameter.end, other.end);
  const auto size = static_cast<uintptr_t>(parameter.tensor.element_size());
  if (other.tensor.element_size() != parameter.tensor.element_size() || (other.begin - begin) % size != 0 ||
      (parameter.begin - begin) % size != 0) {
    return true;  // no telling by elements
  }
  const torch::Tensor flags = mark(parameter, begin, end);
  return flags
      .as_strided(other.tensor.sizes(), other.tensor.strides(), static_cast<int64_t>((other.begin - begin) / size))
      .any()
      .item<bool>();
}

bool has_elements_at_one_place(const Place& place) {
  switch (at::has_internal_overlap(place.tensor)) {
    case at::MemOverlap::No:
      return false;
    case at::MemOverlap::Yes:
      return true;
    case at::MemOverlap::TooHard:
      return mark(place, place.begin, place.end).sum().item<int64_t>() != place.tensor.numel();
  }
  return false;
}

// The parameter comes second if only one is.
void refuse(const Place& first, const Place& second) {
  FSDP_CHECK(first.role != Role::Parameter,
             "shard: the parameters {} and {} share memory but are two tensors (set_data?), which would no longer be "
             "tied. Tie them by one tensor: register_parameter(name, the other module's parameter).",
             first.name, second.name);
  FSDP_CHECK(false,
             "shard: the {} {} and the parameter {} share memory. Training changes the parameter alone from now on, "
             "and the {} would keep the values of now. Give it memory of its own (clone()), or compute it from the "
             "parameter in forward.",
             name_of(first.role), first.name, second.name, name_of(first.role));
}

void check_pair(const Place& one, const Place& other) {
  if (one.role != Role::Parameter && other.role != Role::Parameter) return;
  const Place& parameter = other.role == Role::Parameter ? other : one;
  const Place& beside = other.role == Role::Parameter ? one : other;
  if (!share_bytes(parameter, beside)) return;
  beside.number < parameter.number || beside.role != Role::Parameter ? refuse(beside, parameter)
                                                                     : refuse(parameter, beside);
}

}  // namespace

void check_memory(const std::vector<NamedUnit>& units, const NamedTensors& ignored) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  std::vector<Place> places = places_of(units, ignored);
  for (const Place& place : places) {
    FSDP_CHECK(place.role != Role::Parameter || !has_elements_at_one_place(place),
               "shard: elements of the parameter {} share memory (expand()?), so that a step would change several at "
               "once. Make it contiguous() before it is registered.",
               place.name);
  }
  std::ranges::stable_sort(places, {}, [](const Place& one) { return std::tuple(one.space, one.begin); });
  std::vector<const Place*> open;  // ranks that may meet the next
  for (const Place& place : places) {
    std::erase_if(open, [&](const Place* one) { return one->space != place.space || one->end <= place.begin; });
    for (const Place* one : open) check_pair(*one, place);
    open.push_back(&place);
  }
}

}  // namespace fsdp
