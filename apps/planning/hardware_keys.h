// The keys of a machine's file, and the numbers that they stand for. Readers and writers share them.
#pragma once

#include <span>
#include <variant>

#include "plan/hardware.h"

namespace trainer {

enum class OfKind { Both, Gpus, Cpus };

struct HardwareKey {
  const char* section;  // "": the file's beginning
  const char* name;
  std::variant<double fsdp::plan::Hardware::*, int64_t fsdp::plan::Hardware::*> field;
  OfKind kind = OfKind::Both;
  bool may_be_zero = false;
  bool may_be_missing = false;

  bool is_of(fsdp::plan::DeviceKind device) const {
    return kind == OfKind::Both || (kind == OfKind::Cpus) == (device == fsdp::plan::DeviceKind::Cpu);
  }
};
std::span<const HardwareKey> hardware_keys();

// A key of a [[share]]. Its dtype has none here.
struct ShareKey {
  const char* name;
  std::variant<double fsdp::plan::CpuShare::*, int64_t fsdp::plan::CpuShare::*,
               fsdp::plan::RatesBySize fsdp::plan::CpuShare::*>
      field;
};
std::span<const ShareKey> share_keys();

// "all_reduce": tables of ranks, bytes and seconds.
struct CollectiveKey {
  const char* name;
  fsdp::plan::MeasuredTimes fsdp::plan::Hardware::*field;
};
std::span<const CollectiveKey> collective_keys();

}  // namespace trainer
