// Writes of full parameters by operators, outside of full_parameters(): a mask that forward applies to a weight.
//
// The operator runs on copies of its units. Then the ranks compare hashes of the copies. If these are equal and a value
// changed, each rank writes the changes of its own part to its shard, and the units are gathered anew. A value changed
// if its bits did, in the dtype of full parameters. A backward, which runs a forward again, may only repeat a write.
//
// One operator at a time. The model's lock covers all calls.
#pragma once

#include <torch/types.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sharded_unit.h"
#include "schedule/step_driver.h"

namespace fsdp::engine {

class ParameterWrites {
 public:
  // All outlive it.
  ParameterWrites(Units& units, collectives::Group& group, schedule::StepDriver& driver)
      : units_(units), group_(group), driver_(driver) {}

  // Throws Error if the operator, which is about to use the units, cannot: it writes `written`, or another thread does.
  void check(std::span<const int> units, std::optional<int> written, std::string_view operation) const {
    if (written || !copies_.empty()) [[unlikely]]
      check_use(units, written, operation);
  }
  // The operator is about to run, and the units are full.
  void begin(std::span<const int> units);
  // It has run. A collective in a forward, unless a rank has no batch.
  void finish(std::string_view operation, schedule::Mode mode);
  // An operator on these units has ended, which may have thrown.
  void end(std::span<const int> units) noexcept {
    if (!copies_.empty() && copies_[0].unit == units[0]) bind_units();
  }

 private:
  struct Copy {
    int unit;
    torch::Tensor before;  // where the unit is full: not to be written
    torch::Tensor values;
    std::vector<int64_t> versions = {};  // of the parameters, before the operator
  };

  void check_use(std::span<const int> units, std::optional<int> written, std::string_view operation) const;
  void bind_units() noexcept;
  void restore_versions(const std::vector<Copy>& copies);
  // True if some rank changed a value. A collective.
  bool agree(const std::vector<Copy>& copies, bool changed, std::string_view operation);
  void refuse_differing(const std::vector<Copy>& copies, std::string_view operation);

  Units& units_;
  collectives::Group& group_;
  schedule::StepDriver& driver_;
  std::vector<Copy> copies_;  // of the units of the operator that runs
};

}  // namespace fsdp::engine
