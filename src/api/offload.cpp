#include "api/offload.h"

#include "base/error.h"
#include "collectives/backends.h"
#include "world/state.h"

namespace fsdp {

void check_offload(const Options& options) {
  FSDP_CHECK(!options.offload_directory.empty() || options.offload == Offload::All,
             "shard: options.offload is Optimizer, and options.offload_directory is empty, so that nothing would be "
             "offloaded. Name a folder on a local disk there.");
}

Backings backings_of(const Options& options, World& world) {
  const auto plain = options.cpu_offload ? memory::host_backing() : memory::plain_backing();
  if (options.offload_directory.empty()) return {plain, plain};
  FSDP_CHECK(
      world.device().is_cpu() || options.cpu_offload,
      "shard: options.offload_directory is for shards in the host's memory, and those of this rank are on {}. Set "
      "options.cpu_offload as well.",
      world.device().str());
  const auto files = memory::file_backing(world.state()->offload_folder(options.offload_directory));
  return {options.offload == Offload::All ? files : plain, files};
}

bool is_offloaded_to_cpu(const Options& options, const World& world) {
  return options.cpu_offload && !world.device().is_cpu();
}

std::unique_ptr<collectives::Group> make_offloaded_group(World& world) {
  return collectives::make_host_shard_group(world.state()->new_host_group(), world.device());
}

}  // namespace fsdp
