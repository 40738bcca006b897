#include "plan/engine_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/error.h"

namespace fsdp::plan {

namespace {

const std::array<ShardedEngine, 5>& engines() {
  static const std::array<ShardedEngine, 5> all = {
      {{.name = "libfsdp",
        .launch_forward = 26e-6,
        .launch_backward = 24e-6,
        .host_of_unit = 0,
        .reduction_bytes = 18,
        .update_bytes = 34,
        .update_host = 1.6e-3,
        .update_host_of_tensor = 0,
        .clip_host = 1.6e-3,
        .clip_host_of_tensor = 26e-6,
        .host_of_step = 0},
       {.name = "fsdp1"},
       {.name = "fsdp2",
        .host_of_unit = 0.8e-3,
        .reduction_bytes = 24,
        .copy_bytes = 4,
        .update_host_of_tensor = 25e-6,
        .clip_host_of_tensor = 100e-6},
       {.name = "ddp", .host_of_unit = 0, .reduction_bytes = 0, .is_divided = false},
       {.name = "yafsdp", .reduction_bytes = 0}}};
  return all;
}

}  // namespace

std::vector<std::string> sharded_engines() {
  std::vector<std::string> names;
  for (const ShardedEngine& engine : engines()) names.push_back(engine.name);
  return names;
}

ShardedEngine sharded_engine(std::string_view name, bool is_compiled) {
  for (ShardedEngine engine : engines()) {
    if (engine.name != name) continue;
    engine.is_fused = is_compiled;
    const double launches = is_compiled ? 0.5 : 1;
    engine.launch_forward *= launches;
    engine.launch_backward *= launches;
    return engine;
  }
  throw Error(fmt::format("'{}' is no engine; take one of {}", name, fmt::join(sharded_engines(), ", ")));
}

}  // namespace fsdp::plan
