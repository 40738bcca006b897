#include "training/memory_parts.h"

#include <algorithm>

namespace trainer {

namespace {

// The state of training, in memory. Bytes in files count for the optimizer first, then the shards, then the others.
std::vector<MemoryPart> state_parts(const fsdp::MemoryReport& report) {
  std::vector<MemoryPart> parts = {{"parameters", report.parameter_bytes},
                                   {"gradients", report.gradient_bytes},
                                   {"optimizer", report.optimizer_bytes},
                                   {"full parameters", report.full_parameter_bytes},
                                   {"full gradients", report.full_gradient_bytes}};
  int64_t in_files = report.offloaded_bytes;
  for (const size_t part : {2, 0, 3, 1}) {
    const int64_t bytes = std::min(parts[part].bytes, in_files);
    parts[part].bytes -= bytes;
    in_files -= bytes;
  }
  return parts;
}

}  // namespace

std::vector<MemoryPart> memory_parts(const Training& training) {
  const fsdp::MemoryReport report = training.sharded.memory();
  std::vector<MemoryPart> parts = state_parts(report);
  parts.insert(parts.end(), {{"activations", report.peak_activation_bytes},
                             {"other tensors",
                              std::max<int64_t>(0, training.tensor_memory.peak_bytes() - report.peak_activation_bytes)},
                             {"program and LibTorch", training.program_bytes}});
  if (report.save_copy_bytes > 0) parts.push_back({"copy for saves", report.save_copy_bytes});
  if (training.options.offloads()) parts.push_back({"state in files", report.offloaded_bytes});
  if (training.options.offload_activations)
    parts.push_back({"activations in files", report.peak_offloaded_activation_bytes});
  return parts;
}

}  // namespace trainer
