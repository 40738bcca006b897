#include "planning/hardware_keys.h"

#include <array>

namespace trainer {

using fsdp::plan::CpuShare;
using fsdp::plan::Hardware;

std::span<const HardwareKey> hardware_keys() {
  constexpr auto kGpus = OfKind::Gpus, kCpus = OfKind::Cpus, kBoth = OfKind::Both;
  static const std::array<HardwareKey, 22> all = {
      {{"", "memory", &Hardware::memory},
       {"", "ranks_per_host", &Hardware::ranks_per_host},
       {"", "dollars_per_hour", &Hardware::dollars_per_hour, kBoth, true, true},
       {"", "process_bytes", &Hardware::process_bytes, kCpus, true},
       {"", "program_bytes", &Hardware::program_bytes, kCpus, true},
       {"compute", "product_rate", &Hardware::product_rate, kGpus},
       {"compute", "wide_product_rate", &Hardware::wide_product_rate, kGpus},
       {"compute", "sustained", &Hardware::sustained, kGpus},
       {"compute", "processors", &Hardware::processors, kGpus},
       {"compute", "half_depth", &Hardware::half_depth, kGpus, true},
       {"compute", "attention_forward_rate", &Hardware::attention_forward_rate, kGpus},
       {"compute", "attention_backward_rate", &Hardware::attention_backward_rate, kGpus},
       {"compute", "memory_bandwidth", &Hardware::memory_bandwidth, kGpus},
       {"compute", "memory_efficiency", &Hardware::memory_efficiency, kGpus},
       {"compute", "kernel_seconds", &Hardware::kernel_seconds, kGpus, true},
       {"network", "local_latency", &Hardware::local_latency, kBoth, true},
       {"network", "local_bandwidth", &Hardware::local_bandwidth},
       {"network", "local_rank_latency", &Hardware::local_rank_latency, kBoth, true},
       {"network", "rank_latency", &Hardware::rank_latency, kGpus, true},
       {"network", "host_latency", &Hardware::host_latency, kGpus, true},
       {"network", "network_bandwidth", &Hardware::network_bandwidth, kGpus},
       {"network", "network_efficiency", &Hardware::network_efficiency, kGpus}}};
  return all;
}

std::span<const ShareKey> share_keys() {
  static const std::array<ShareKey, 16> all = {{{"ranks", &CpuShare::ranks},
                                                {"threads", &CpuShare::threads},
                                                {"products", &CpuShare::products},
                                                {"backward_products", &CpuShare::backward_products},
                                                {"passes", &CpuShare::passes},
                                                {"attention", &CpuShare::attention},
                                                {"backward_attention", &CpuShare::backward_attention},
                                                {"activation_rate", &CpuShare::activation_rate},
                                                {"backward_activation_rate", &CpuShare::backward_activation_rate},
                                                {"norm_rate", &CpuShare::norm_rate},
                                                {"backward_norm_rate", &CpuShare::backward_norm_rate},
                                                {"logit_rate", &CpuShare::logit_rate},
                                                {"update_rate", &CpuShare::update_rate},
                                                {"operator_seconds", &CpuShare::operator_seconds},
                                                {"backward_operator_seconds", &CpuShare::backward_operator_seconds},
                                                {"step_factors", &CpuShare::step_factors}}};
  return all;
}

std::span<const CollectiveKey> collective_keys() {
  static const std::array<CollectiveKey, 3> all = {{{"all_gather", &Hardware::all_gathers},
                                                    {"reduce_scatter", &Hardware::reduce_scatters},
                                                    {"all_reduce", &Hardware::all_reduces}}};
  return all;
}

}  // namespace trainer
