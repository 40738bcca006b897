#include "training/write_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "console/units.h"
#include "files/durable_file.h"
#include "report/profile_page.h"
#include "training/clock_offset.h"
#include "training/profile_plan.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

// Their spans are in rank 0's memory all at once.
constexpr int kMostRanksOfPage = 64;

constexpr std::string_view kBegin = "[\n", kEnd = "\n]\n";  // of a rank's array, and of that of all ranks

void send_text(fsdp::World& world, const std::string& text, int peer) {
  const auto size = static_cast<int64_t>(text.size());
  world.send(torch::tensor({size}, torch::kInt64).to(world.device()), peer);
  torch::Tensor bytes = torch::empty({size}, torch::kUInt8);
  std::ranges::copy(text, bytes.mutable_data_ptr<uint8_t>());
  world.send(bytes.to(world.device()), peer);
}

std::string receive_text(fsdp::World& world, int peer) {
  torch::Tensor size = torch::empty({1}, torch::TensorOptions(torch::kInt64).device(world.device()));
  world.receive_(size, peer);
  torch::Tensor bytes =
      torch::empty({size.item<int64_t>()}, torch::TensorOptions(torch::kUInt8).device(world.device()));
  world.receive_(bytes, peer);
  bytes = bytes.cpu();
  const auto* first = bytes.const_data_ptr<uint8_t>();
  return {first, first + bytes.numel()};
}

// The trace of all ranks, as it is written. A failure is kept: the ranks send all the same.
class TraceFile {
 public:
  explicit TraceFile(const fs::path& folder) {
    attempt([&] {
      fs::create_directories(folder);
      file_.emplace(folder / "trace.json");
    });
  }

  void add(std::string_view events) {
    events.remove_prefix(kBegin.size());
    events.remove_suffix(kEnd.size());
    attempt([&] {
      file_->file().append(is_first_ ? kBegin : std::string_view(",\n"));
      file_->file().append(events);
      is_first_ = false;
    });
  }

  void close() {
    attempt([&] {
      file_->file().append(kEnd);
      file_->commit();
    });
  }

  // Empty: there was none.
  const std::string& problem() const { return problem_; }

 private:
  template <typename Write>
  void attempt(const Write& write) try {
    if (problem_.empty()) write();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }

  std::optional<fsdp::files::ReplacedFile> file_;
  bool is_first_ = true;
  std::string problem_;
};

std::vector<std::string> notes_of(const std::vector<ClockOffset>& offsets) {
  std::vector<std::string> notes;
  for (size_t rank = 0; rank < offsets.size(); ++rank) {
    const auto [nanoseconds, error] = offsets[rank];
    const bool is_known = rank > 0 && offsets[rank - 1].nanoseconds == nanoseconds;
    if (nanoseconds == 0 || is_known) continue;
    notes.push_back(
        fmt::format("From rank {} on, {:.6f} s are added to the host's clock, which is then rank 0's within {:.3f} ms.",
                    rank, 1e-9 * static_cast<double>(nanoseconds), 1e-6 * static_cast<double>(error)));
  }
  return notes;
}

Profile profile_of(const Training& training, StepRange steps, double peak_flops) {
  const RunOptions& options = training.options;
  Profile profile{
      .title = fmt::format("Profile of {}", fs::path(options.run).filename().string()),
      .subtitle = fmt::format("steps {} to {} on {}", steps.first, steps.last, counted(training.world.size(), "rank")),
      .ranks_of_replica = training.mesh.ranks_of_replica()};
  if (training.plan) profile.plan = with_time(*training.plan, options, peak_flops);
  return profile;
}

}  // namespace

std::string write_profile(Training& training, fsdp::Trace& trace, StepRange steps, double peak_flops) {
  fsdp::World& world = training.world;
  training.phase.enter("writes the profile", steps.last);
  const std::vector<ClockOffset> offsets = clock_offsets(world);
  const int64_t offset = offsets[static_cast<size_t>(world.rank())].nanoseconds;
  const std::string own = trace.events(std::chrono::nanoseconds(offset));
  if (world.rank() != 0) {
    send_text(world, own, 0);
    return "";
  }
  const fs::path folder = training.options.profile;
  TraceFile file(folder);
  Profile profile = profile_of(training, steps, peak_flops);
  profile.notes = notes_of(offsets);
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string events = rank == 0 ? own : receive_text(world, rank);
    file.add(events);
    if (rank < kMostRanksOfPage) profile.ranks.push_back(read_rank_trace(events));
  }
  if (world.size() > kMostRanksOfPage)
    profile.notes.push_back(
        fmt::format("This page is about the first {} of {} ranks.", kMostRanksOfPage, world.size()));
  file.close();
  try {
    if (!file.problem().empty()) throw fsdp::Error(file.problem());
    fsdp::files::write_durably(folder / "profile.html", profile_page(profile));
    return fmt::format("profile of steps {} to {}: {}", steps.first, steps.last, (folder / "profile.html").string());
  } catch (const std::exception& error) {
    return fmt::format("the profile could not be written, training goes on: {}", error.what());
  }
}

}  // namespace trainer
