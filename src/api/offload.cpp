#include "api/offload.h"

#include "base/error.h"
#include "collectives/backends.h"
#include "fsdp/freed_memory.h"
#include "interpose/activation_count.h"
#include "world/state.h"

namespace fsdp {

void check_offload(const Options& options) {
  FSDP_CHECK(!options.offload_directory.empty() || options.offload != Offload::Optimizer,
             "shard: options.offload is Optimizer, and options.offload_directory is empty, so that nothing would be "
             "offloaded. Name a folder on a local disk there.");
  FSDP_CHECK(
      options.offload_directory.empty() || options.offload != Offload::Nothing || options.offload_activations,
      "shard: options.offload_directory is '{}', options.offload is Nothing and offload_activations is false, so "
      "that nothing would be offloaded. Leave the folder out, or set offload_activations.",
      options.offload_directory.string());
  FSDP_CHECK(options.offload_activations_from >= 0,
             "shard: found offload_activations_from {}, expected 0 or more: a number of bytes",
             options.offload_activations_from);
}

namespace {

// The folder, if something lies in it. Opens it.
std::shared_ptr<const memory::OffloadFolder> folder_of(const Options& options, World& world) {
  if (options.offload_directory.empty()) return nullptr;
  return world.state()->offload_folder(options.offload_directory);
}

std::shared_ptr<memory::ByteStore> activation_store_of(const Options& options, World& world) {
  if (!options.offload_activations) return nullptr;
  if (!world.device().is_cpu()) return memory::host_store();
  const auto folder = folder_of(options, world);
  FSDP_CHECK(folder,
             "shard: options.offload_activations is set, and options.offload_directory is empty. Ranks on the CPU need "
             "it for their activations. Set it to a folder on a local disk.");
  return memory::file_store(folder);
}

std::shared_ptr<memory::Backing> held_backing_of(const Options& options, World& world) {
  FSDP_CHECK(world.device().is_cpu() || options.cpu_offload,
             "shard: LaunchOptions::hot_restart needs shards in the host's memory, found them on {}. Set "
             "options.cpu_offload as well.",
             world.device().str());
  FSDP_CHECK(options.offload_directory.empty() || options.offload == Offload::Nothing,
             "shard: LaunchOptions::hot_restart holds shards and optimizer state in memory, and "
             "options.offload_directory is '{}', where they would be files. Leave one out.",
             options.offload_directory.string());
  return world.state()->held();
}

}  // namespace

Backings backings_of(const Options& options, World& world) {
  const auto plain = options.cpu_offload ? memory::host_backing() : memory::plain_backing();
  const auto copied = is_offloaded_to_cpu(options, world) ? memory::host_backing(/*pinned=*/true) : plain;
  Backings backings{
      .shards = copied, .sums = plain, .states = plain, .activations = activation_store_of(options, world)};
  if (world.state()->held()) backings.shards = backings.states = held_backing_of(options, world);
  if (options.offload_directory.empty()) return backings;
  return_freed_memory();
  backings.in_files = options.offload;
  if (backings.in_files == Offload::Nothing) return backings;
  FSDP_CHECK(world.device().is_cpu() || options.cpu_offload,
             "shard: options.offload_directory needs shards in the host's memory, found them on {}. Set "
             "options.cpu_offload as well.",
             world.device().str());
  backings.states = memory::file_backing(folder_of(options, world));
  if (backings.in_files == Offload::All) backings.shards = backings.sums = backings.states;
  return backings;
}

bool is_offloaded_to_cpu(const Options& options, const World& world) {
  return options.cpu_offload && !world.device().is_cpu();
}

std::unique_ptr<collectives::Group> make_offloaded_group(World& world, const Backings& backings) {
  const bool shared_by_hosts_ranks = backings.in_files == Offload::All || world.state()->held();
  if (world.state()->uses_nccl() && !shared_by_hosts_ranks) return world.state()->new_group();
  return collectives::make_host_shard_group(world.state()->new_host_group(), world.device());
}

}  // namespace fsdp
