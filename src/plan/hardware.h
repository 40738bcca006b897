// A machine in numbers: how fast its devices compute, and how fast they exchange bytes. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/cpu_share.h"

namespace fsdp::plan {

enum class DeviceKind { Gpu, Cpu };

// Seconds of a collective between so many ranks of one host, by bytes: a measured table.
using MeasuredTimes = std::map<int64_t, std::map<double, double>>;

struct Hardware {
  std::string name;
  DeviceKind kind = DeviceKind::Gpu;
  double memory = 0;  // bytes of a rank's device; for CPUs of a host, which its ranks share
  int64_t ranks_per_host = 8;

  // Matrix products. Rates are those of large products that are achieved, not those of data sheets.
  double product_rate = 0;       // floating-point operations per second in 16 bits
  double wide_product_rate = 0;  // and in fp32
  double sustained = 1;          // share of the rate in training, where the device's power is the limit
  int64_t processors = 1;        // that compute tiles of a product beside each other
  double half_depth = 0;         // depth of a product (k) at which a tile reaches half its rate

  // Attention in one kernel, of heads of width 128 and long sequences, in operations per second.
  double attention_forward_rate = 0, attention_backward_rate = 0;

  // Operators that memory bounds.
  double memory_bandwidth = 0;   // bytes per second, by the data sheet
  double memory_efficiency = 1;  // share of it that operators reach
  double kernel_seconds = 0;     // of the device, for each kernel beside its work

  // Collectives. `bandwidth` is in bytes per second and direction.
  double local_latency = 0;       // seconds of a collective between ranks of a host
  double local_bandwidth = 0;     // of a ring between ranks of a host
  double local_rank_latency = 0;  // seconds for each further rank of such a ring
  double rank_latency = 0;        // and of a ring over several hosts
  double host_latency = 0;        // seconds for each host of that
  double network_bandwidth = 0;   // a rank's share of its host's network
  double network_efficiency = 1;  // share of it that collectives reach
  MeasuredTimes all_gathers = {}, reduce_scatters = {}, all_reduces = {};

  // As few hosts as have room for so many ranks.
  int64_t hosts_for(int64_t ranks) const { return (ranks + ranks_per_host - 1) / ranks_per_host; }

  double dollars_per_hour = 0;  // for one device; 0: not known

  // CPUs have shares in place of the products, the attention and the operators above.
  std::vector<CpuShare> shares = {};
  double process_bytes = 0, program_bytes = 0;  // of a rank before its model is made, and of all ranks of a host once

  bool has_cpus() const { return kind == DeviceKind::Cpu; }
};

}  // namespace fsdp::plan
