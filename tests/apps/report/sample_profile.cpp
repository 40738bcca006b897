#include "apps/report/sample_profile.h"

#include <fmt/format.h>

namespace {

constexpr int64_t kMillisecond = 1'000'000;

void add_step(trainer::RankTrace& trace, int64_t number, int samples) {
  const int64_t begin = number * 100 * kMillisecond, slow = trace.rank == 1 ? 10 * kMillisecond : 0;
  const auto add = [&](const char* kind, const std::string& name, int64_t from, int64_t to) {
    trace.spans.push_back({kind, name, begin + from * kMillisecond, begin + to * kMillisecond});
  };
  add("program", fmt::format("step {}", number + 1), 0, 90);
  add("forward", "forward <b>root", 0, 10);
  add("forward", "forward blocks.0", 10, 30);
  add("reduce", "reduce blocks.0", 30 + slow / kMillisecond, 45);
  add("waits", "reduce blocks.0", 30 + slow / kMillisecond, 45);
  add("backward", "backward blocks.0", 45, 80);
  for (int i = 0; i < samples; ++i) {
    trainer::TraceMemory memory{.time = begin + i * 80 * kMillisecond / samples};
    const bool is_peak = number == 1 && i == samples / 2;
    memory.bytes = {{"parameters", 4'000'000},
                    {"gradients", 4'000'000},
                    {"optimizer", 8'000'000},
                    {"full parameters", 1'000'000},
                    {"full gradients", 1'000'000},
                    {"activations", 1'000'000 * (i + 1) / samples + (is_peak ? 9'000'000 + trace.rank : 0)},
                    {"other tensors", 500'000}};
    trace.memory.push_back(memory);
  }
}

}  // namespace

trainer::Profile sample_profile(int samples) {
  trainer::Profile profile{.title = "Profile of <i>run", .subtitle = "steps 1 to 3 on 2 ranks"};
  for (const int rank : {0, 1}) {
    profile.ranks.push_back({.rank = rank});
    for (const int64_t step : {0, 1, 2}) add_step(profile.ranks.back(), step, samples);
  }
  profile.plan = trainer::ProfilePlan{.memory = {{"parameters", 4e6},
                                                 {"gradients", 4e6},
                                                 {"optimizer", 8e6},
                                                 {"full parameters", 1e6},
                                                 {"full gradients", 1e6},
                                                 {"activations", 5e6},
                                                 {"other tensors", 4e5}},
                                      .peak_bytes = 23.4e6,
                                      .step_seconds = 0.04,
                                      .assumed = "steps reach 50 % of 1 TFLOP/s per rank"};
  profile.notes = {"the clock of <u>host 2 was aligned"};
  return profile;
}
