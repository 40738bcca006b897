#include "api/offload.h"

#include "base/error.h"
#include "world/state.h"

namespace fsdp {

void check_offload(const Options& options) {
  FSDP_CHECK(!options.offload_directory.empty() || options.offload == Offload::All,
             "shard: options.offload is Optimizer, and options.offload_directory is empty, so that nothing would be "
             "offloaded. Name a folder on a local disk there.");
}

Backings backings_of(const Options& options, World& world) {
  const auto plain = memory::plain_backing();
  if (options.offload_directory.empty()) return {plain, plain};
  FSDP_CHECK(world.device().is_cpu(),
             "shard: options.offload_directory is for ranks on the CPU, and this one computes on {}. Leave it empty.",
             world.device().str());
  const auto files = memory::file_backing(world.state()->offload_folder(options.offload_directory));
  return {options.offload == Offload::All ? files : plain, files};
}

}  // namespace fsdp
