#include "api/given_units.h"

#include <string>
#include <unordered_set>

#include "base/error.h"

namespace fsdp {

namespace {

// The names of the tensors of one kind, in all units. A checkpoint has one value for each.
class NamesOfKind {
 public:
  explicit NamesOfKind(const char* kind) : kind_(kind) {}

  void add(const NamedUnit& unit, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      FSDP_CHECK_UNIT(tensor.defined(), unit.name, "shard: the {} {} is undefined, expected a tensor. Leave it out.",
                      kind_, name);
      FSDP_CHECK_UNIT(
          names_.insert(name).second, unit.name,
          "shard: two {}s are named {}, and a checkpoint would hold one value for both. Give each a name of "
          "its own.",
          kind_, name);
    }
  }

 private:
  const char* kind_;
  std::unordered_set<std::string> names_;
};

}  // namespace

void check_given(const std::vector<NamedUnit>& units) {
  std::unordered_set<std::string> names;
  NamesOfKind parameters("parameter"), buffers("buffer");
  for (const NamedUnit& unit : units) {
    FSDP_CHECK(names.insert(unit.name).second, "shard: two units are named {}. Give each a name of its own.",
               unit.name);
    parameters.add(unit, unit.parameters);
    buffers.add(unit, unit.buffers);
  }
}

}  // namespace fsdp
