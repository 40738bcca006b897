// Bytes that a rank receives from the ranks that share its units: full parameters, and gradients. Pure.
#pragma once

#include <fsdp/plan.h>

#include <cstdint>
#include <vector>

#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"

namespace fsdp::plan {

// The ranks among which units are divided, by their hosts.
class DataRanks {
 public:
  // By rank: the number of its host.
  explicit DataRanks(const std::vector<int64_t>& hosts);

  int64_t size() const { return static_cast<int64_t>(host_of_.size()); }
  int64_t hosts() const { return static_cast<int64_t>(runs_.size()); }
  // Each host has equally many.
  bool are_even() const;
  // Runs of consecutive ranks: those of the rank's host, itself included.
  const std::vector<layout::Range>& on_host_of(int64_t rank) const;

 private:
  std::vector<size_t> host_of_;                   // counted from 0
  std::vector<std::vector<layout::Range>> runs_;  // by host
};

// The traffic of units in a step. A rank's traffic takes time for each different unit and its parameters, whatever the
// number of ranks.
class DataTraffic {
 public:
  // `uses` by unit. Throws Error as fsdp::plan::communication does.
  DataTraffic(const std::vector<Unit>& units, const std::vector<UnitUses>& uses, const Sharding& sharding);

  // `ranks` are as many as those of the sharding.
  Communication of(const DataRanks& ranks, int64_t rank) const;

 private:
  struct EqualUnits {
    Unit unit;
    layout::UnitLayout layout;
    layout::GradientLayout gradients;
    bool all_trained;
    UnitUses uses;  // of all of them
  };
  struct Numbers {
    int64_t ranks = 0, numel = 0;
  };

  void add_gathers(const EqualUnits& units, const DataRanks& ranks, int64_t rank, Traffic& gathers) const;
  void add_sums(const EqualUnits& units, const DataRanks& ranks, int64_t rank, Traffic& reductions) const;
  void add_replicas(const EqualUnits& units, const DataRanks& ranks, int64_t rank, Traffic& reductions) const;
  Numbers replicas_on_host(const EqualUnits& units, const DataRanks& ranks, int64_t rank) const;

  Sharding sharding_;
  std::vector<EqualUnits> kinds_;
};

}  // namespace fsdp::plan
