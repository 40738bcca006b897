#include "doctor/self_check.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>

#include "console/units.h"
#include "planning/peak_flops.h"
#include "run/problems.h"
#include "run/shared_value.h"

namespace trainer {

namespace {

constexpr const char* kCheckSubject = "two ranks";

// A layer of ones takes one step of size 1. Rank r's input is r + 1 in all places, and so is its gradient; what is
// stepped by is their mean. Every number is a whole multiple of a half: bits are exact.
void step_once(fsdp::World& world) {
  constexpr int64_t kLayerWidth = 64;
  torch::nn::Linear layer(torch::nn::LinearOptions(kLayerWidth, kLayerWidth).bias(false));
  torch::nn::init::ones_(layer->weight);
  layer->to(world.device());
  auto sharded = fsdp::shard(*layer, world);
  fsdp::SGD optimizer(sharded, {.lr = 1});
  const double own = world.rank() + 1, mean = (world.size() + 1) / 2.0;
  layer->forward(torch::full({1, kLayerWidth}, own, world.device())).sum().backward();
  optimizer.step();
  for (const auto& [name, weight] : sharded.full_state()) {
    if (!weight.eq(1 - mean).all().item<bool>()) {
      throw fsdp::Error(
          fmt::format("doctor: after a step of rank {}, parameter '{}' is not what it should be: expected "
                      "{} in all places.",
                      world.rank(), name, 1 - mean));
    }
  }
}

// Rates of matrix products, in operations per second of all ranks together; 0: not measured.
struct Rates {
  SharedValue<double> fp32{0}, bf16{0};
};

void check_rank(fsdp::World& world, Rates& rates) {
  step_once(world);
  const double fp32 = measured_peak_flops(world, torch::kFloat32), bf16 = measured_peak_flops(world, torch::kBFloat16);
  if (world.rank() != 0) return;
  rates.fp32.set(fp32);
  rates.bf16.set(bf16);
}

// The problem; empty if there is none.
std::string run_two_ranks(Rates& rates) try {
  const int code = fsdp::launch({.ranks = 2, .timeout = std::chrono::minutes(1), .plain_rank0 = true},
                                [&](fsdp::World& world) { check_rank(world, rates); });
  if (code == 0) return "";
  return fmt::format("they could not do a step (exit code {}); the message above says why", code);
} catch (const fsdp::Error& error) {
  return error.what();
}

}  // namespace

std::vector<Finding> check_two_ranks() {
  if (is_started_as_rank()) {
    return {{.verdict = Verdict::Note,
             .subject = kCheckSubject,
             .text = "not checked: this process is a rank of a job already, by RANK, SLURM_PROCID or "
                     "OMPI_COMM_WORLD_RANK",
             .mend = "env -u RANK -u SLURM_PROCID \\\n  -u OMPI_COMM_WORLD_RANK fsdp-train doctor"}};
  }
  Rates rates;
  if (const std::string problem = run_two_ranks(rates); !problem.empty()) {
    return {{.verdict = Verdict::Problem, .subject = kCheckSubject, .text = problem}};
  }
  return {{.subject = kCheckSubject, .text = "they gathered, reduced and stepped, with the right result"},
          {.subject = "matrix products",
           .text = fmt::format("{} in fp32 and {} in bf16, both ranks together", operation_rate(rates.fp32.get()),
                               operation_rate(rates.bf16.get()))}};
}

}  // namespace trainer
