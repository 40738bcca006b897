#include "run/shared_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "run/first_rank.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

// A file system of a network shows what another host has made within a few seconds (nfs(5), "attribute caching").
constexpr std::chrono::seconds kLongest{15};
constexpr std::chrono::milliseconds kBetweenLooks{50};

// The name of a file that no other job makes; empty where there is no such folder.
std::string leave_file(const std::string& run) {
  std::error_code error;
  if (!fs::is_directory(run, error)) return "";
  std::random_device random;
  const std::string name = fmt::format(".seen-by-all-{:08x}{:08x}", random(), random());
  if (std::ofstream(fs::path(run) / name)) return name;
  throw fsdp::Error(fmt::format("run folder '{}' cannot be written: '{}' could not be made there.", run, name));
}

bool finds(const fs::path& path) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  std::error_code error;
  while (!fs::exists(path, error)) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

}  // namespace

bool check_folder_is_shared(fsdp::World& world, const std::string& run) {
  if (world.local_size() == world.size()) return true;
  const std::string name = from_first_rank(world, [&] { return leave_file(run); });
  if (name.empty()) return false;
  const fs::path path = fs::path(run) / name;  // in the folder as this rank sees it
  const torch::Tensor found = torch::tensor(finds(path));
  std::vector<int> blind;
  const std::vector<torch::Tensor> all = world.all_gather(found);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (!all[static_cast<size_t>(rank)].item<bool>()) blind.push_back(rank);
  }
  std::error_code ignored;
  if (world.rank() == 0) fs::remove(path, ignored);
  if (blind.empty()) return true;
  throw AgreedError(
      world, fmt::format(
                 "run folder '{}' is not the same for all hosts: rank 0 left a file there, and {} {} not find it. "
                 "Every rank writes its part of a checkpoint there: name a --run on a file system that all hosts "
                 "share.",
                 fs::absolute(run, ignored).string(),
                 blind.size() == 1 ? fmt::format("rank {}", blind[0]) : fmt::format("ranks {}", fmt::join(blind, ", ")),
                 blind.size() == 1 ? "does" : "do"));
}

}  // namespace trainer
