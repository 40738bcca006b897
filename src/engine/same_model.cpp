#include "engine/same_model.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/rank_names.h"
#include "engine/strategy_name.h"
#include "fsdp/deferred_init.h"

namespace fsdp::engine {

namespace {

struct ComparedOption {
  const char* name;
  int value;
  std::string (*shown)(int value);
};

void check_same_options(const ModelSpec& spec, collectives::Group& group) {
  const auto number = [](int value) { return std::to_string(value); };
  const auto strategy = [](int value) { return std::string(name_of(Strategy(value))); };
  const auto dtype = [](int value) { return std::string(toString(torch::ScalarType(value))); };
  const auto boolean = [](int value) { return std::string(value ? "true" : "false"); };
  const auto offload = [](int value) {
    return std::string(Offload(value) == Offload::All         ? "All in a folder"
                       : Offload(value) == Offload::Optimizer ? "Optimizer in a folder"
                                                              : "Nothing");
  };
  const std::vector<ComparedOption> options{{"strategy", int(spec.strategy), strategy},
                                            {"shard_group_size", spec.shards, number},
                                            {"buffers", spec.buffers, number},
                                            {"prefetch", spec.prefetch, number},
                                            {"full_on_each_host", int(spec.full_on_each_host), boolean},
                                            {"mixed_precision.reduce_dtype", int(spec.reduce_dtype), dtype},
                                            {"sync_module_states", int(spec.sync_module_states), boolean},
                                            {"broadcast_buffers", int(spec.broadcast_buffers), boolean},
                                            {"initialise", int(spec.initialise), boolean},
                                            {"offload", int(spec.in_files), offload},
                                            {"offload_activations", spec.activation_store != nullptr, boolean},
                                            {"check_common_every", spec.check_common_every, number}};
  torch::Tensor own = torch::empty({static_cast<int64_t>(options.size())}, torch::kInt32);
  for (size_t i = 0; i < options.size(); ++i) own.mutable_data_ptr<int>()[i] = options[i].value;
  const auto all = group.all_gather(own);
  for (int rank = 0; rank < group.size(); ++rank) {
    for (size_t i = 0; i < options.size(); ++i) {
      const int theirs = all[rank].const_data_ptr<int>()[i], first = all[0].const_data_ptr<int>()[i];
      FSDP_CHECK(theirs == first, "shard: the option {} is {} on {} and {} on {}. Use the same on every rank.",
                 options[i].name, options[i].shown(theirs), text_of_rank(group.name_of(rank)), options[i].shown(first),
                 text_of_rank(group.name_of(0)));
    }
  }
}

// Equal names, shapes, strides and dtypes give equal numbers on every rank.
int64_t hash_of(const UnitSpec& spec, bool initialise) {
  const NamedUnit& unit = spec.tensors;
  Fnv1a hash;
  hash.add(fmt::format("{} {}", unit.name, toString(spec.dtype)));
  for (const auto& [name, tensor] : unit.parameters) {
    hash.add(fmt::format("|{} {} {} {}", name, fmt::join(tensor.sizes(), ","), fmt::join(tensor.strides(), ","),
                         tensor.requires_grad()));
    if (!initialise && is_deferred(tensor)) hash.add(" has no value");
  }
  for (const auto& [name, tensor] : unit.buffers) {
    hash.add(fmt::format("|{} {} {}", name, fmt::join(tensor.sizes(), ","), toString(tensor.scalar_type())));
  }
  return hash.word();
}

void check_same_units(const ModelSpec& spec, collectives::Group& group) {
  const std::vector<UnitSpec>& units = spec.units;
  std::vector<int64_t> hashes;
  for (const UnitSpec& unit : units) hashes.push_back(hash_of(unit, spec.initialise));
  const auto counts = group.all_gather(torch::tensor(static_cast<int64_t>(hashes.size())));
  for (int rank = 0; rank < group.size(); ++rank) {
    const int64_t count = counts[rank].item<int64_t>();
    FSDP_CHECK(count == counts[0].item<int64_t>(),
               "shard: {} has a model of {} units, {} one of {}. Build the same model on every rank.",
               text_of_rank(group.name_of(rank)), count, text_of_rank(group.name_of(0)), counts[0].item<int64_t>());
  }
  const auto all = group.all_gather(torch::tensor(hashes));
  for (int rank = 0; rank < group.size(); ++rank) {
    for (size_t i = 0; i < hashes.size(); ++i) {
      FSDP_CHECK_UNIT(all[rank][i].item<int64_t>() == all[0][i].item<int64_t>(), units[i].tensors.name,
                      "shard: the names, shapes or dtypes of the parameters or buffers on {}, or which of them are "
                      "frozen, or deferred, differ from those on {}. "
                      "Build the same model on every rank.",
                      text_of_rank(group.name_of(rank)), text_of_rank(group.name_of(0)));
    }
  }
}

}  // namespace

void check_same_model(const ModelSpec& spec, collectives::Group& group) {
  check_same_options(spec, group);
  check_same_units(spec, group);
}

}  // namespace fsdp::engine
