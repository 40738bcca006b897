#include "fsdp-calibrate/calibrated_host.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <unistd.h>

#include <algorithm>

#include "console/units.h"
#include "files/memory_room.h"
#include "fsdp-calibrate/collective_times.h"
#include "fsdp-calibrate/measured_steps.h"
#include "fsdp-calibrate/operator_rates.h"
#include "metrics/machine.h"
#include "metrics/process_memory.h"
#include "planning/hardware_file.h"
#include "planning/hardware_toml.h"
#include "run/processor.h"
#include "run/shared_text.h"

namespace calibration {

namespace {

using fsdp::plan::CpuShare;
using fsdp::plan::DeviceKind;
using fsdp::plan::Hardware;

double memory_of_host() {
  const double all = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::min(all, static_cast<double>(fsdp::files::memory_limit().bytes));
}

// The memory of a rank before it makes a model. The operators' code is in memory by then.
void measure_process(Hardware& hardware) {
  const trainer::ProcessMemory memory = trainer::process_memory();
  hardware.process_bytes = static_cast<double>(memory.resident_bytes - memory.shared_bytes);
  hardware.program_bytes = static_cast<double>(memory.shared_bytes);
}

// A step of the small models would take minutes where bf16 is slow.
std::vector<torch::ScalarType> measured_dtypes() {
  if (trainer::read_processor().is_slow_in_bf16()) return {torch::kFloat32};
  return {torch::kFloat32, torch::kBFloat16};
}

Hardware measured_by_ranks(fsdp::World& world, const Effort& effort) {
  const std::string model = trainer::read_processor().model;
  Hardware hardware{
      .name = fmt::format("{}, {}", model.empty() ? "CPU" : model, trainer::counted(trainer::usable_cores(), "core")),
      .kind = DeviceKind::Cpu,
      .memory = memory_of_host(),
      .ranks_per_host = trainer::usable_cores()};
  measure_process(hardware);
  if (world.size() > 1) measure_collectives(world, effort, hardware);
  for (const auto dtype : measured_dtypes()) {
    CpuShare share = measured_operators(world, dtype, effort);
    measure_steps(world, effort, hardware, share);
    hardware.shares.push_back(share);
  }
  // Nothing was exchanged: a copy's bandwidth stands for it.
  if (world.size() == 1) hardware.local_bandwidth = 8 * hardware.shares.front().passes.rbegin()->second;
  return hardware;
}

// Ranks are forked, and one rank is this process: so it comes last.
std::vector<int64_t> numbers_of_ranks() {
  const int64_t cores = trainer::usable_cores();
  std::vector<int64_t> numbers;
  for (const int64_t ranks : {cores, cores / 2, int64_t{1}}) {
    if (ranks > 0 && (numbers.empty() || ranks < numbers.back())) numbers.push_back(ranks);
  }
  return numbers;
}

Hardware measured_with(int64_t ranks, const Effort& effort) {
  trainer::SharedText result;
  const int code =
      fsdp::launch({.ranks = static_cast<int>(ranks), .backend = "shm", .plain_rank0 = true}, [&](fsdp::World& world) {
        const Hardware hardware = measured_by_ranks(world, effort);
        if (world.rank() == 0) result.set(trainer::hardware_toml(hardware, ""));
      });
  if (code != 0) throw fsdp::Error(fmt::format("{} failed to measure this host.", trainer::counted(ranks, "rank")));
  return trainer::hardware_in(result.get(), "the figures of " + trainer::counted(ranks, "rank"));
}

}  // namespace

Hardware calibrated_host(const Effort& effort, void (*progress)(const std::string& line)) {
  Hardware all;
  if (measured_dtypes().size() == 1)
    progress("bf16 is not measured: this CPU has no instructions for its products. Plans in bf16 will have no time");
  for (const int64_t ranks : numbers_of_ranks()) {
    progress(fmt::format("measuring with {}", trainer::counted(ranks, "rank")));
    Hardware hardware = measured_with(ranks, effort);
    if (all.shares.empty()) {
      all = hardware;
      continue;
    }
    for (const auto tables : {&Hardware::all_gathers, &Hardware::reduce_scatters, &Hardware::all_reduces})
      (all.*tables).merge(hardware.*tables);
    all.shares.insert(all.shares.end(), hardware.shares.begin(), hardware.shares.end());
  }
  return all;
}

}  // namespace calibration
