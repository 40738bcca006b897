// A run as it is planned, and the host that it is planned for.
#pragma once

#include <cstdint>
#include <optional>

#include "options/options.h"

namespace trainer {

// Times on a rank's device, in seconds.
struct PassTimes {
  double layer = 0;                // forward and backward of one layer for a micro-batch
  double rest = 0;                 // of embedding, head and loss
  double update_of_parameter = 0;  // the optimizer's, for one parameter
};

// Facts about a host that are known without training on it.
struct Host {
  bool on_gpus = false;                             // the ranks compute on GPUs, and `memory` is the GPUs'
  std::optional<double> memory = std::nullopt;      // bytes that are left for the ranks; none: not known
  std::optional<double> disk = std::nullopt;        // bytes that are free where offloaded state lies; none: not known
  std::optional<int64_t> cores = std::nullopt;      // that the ranks may use; none: not known
  int64_t threads = 1;                              // per rank
  double process_bytes = 0;                         // that a rank takes before its model is made; on GPUs 0
  double program_bytes = 0;                         // that the ranks of a host take together, once: the program's files
  std::optional<double> peak_flops = std::nullopt;  // operations per second and rank; none: not measured
  std::optional<PassTimes> passes = std::nullopt;   // none: not measured
};

// `host` has neither --memory nor --peak-flops, which are in `options`: they describe another machine.
struct RunPlan {
  RunOptions options;                             // resolved
  std::optional<int64_t> windows = std::nullopt;  // of the training data, where it is known
  int64_t hosts = 1;                              // of equally many ranks each
  Host host = {};
  bool validates = true;  // between steps: its passes count

  std::optional<double> memory() const { return options.memory ? options.memory : host.memory; }
  std::optional<double> peak_flops() const { return options.peak_flops ? options.peak_flops : host.peak_flops; }
  int64_t ranks_of_host() const { return options.ranks / hosts; }
};

}  // namespace trainer
