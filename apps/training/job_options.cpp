#include "training/job_options.h"

#include <fsdp/checkpoint.h>
#include <torch/utils.h>

#include "options/numbers.h"
#include "options/resolve.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"
#include "run/run_folder.h"
#include "run/run_settings.h"
#include "run/threads_before.h"
#include "training/planned_run.h"
#include "training/run_notes.h"

namespace trainer {

namespace {

// Their number decides bits (docs/determinism.md): a job that goes on after a failure, on fewer ranks too, keeps it.
int64_t threads_for_job(const RunOptions& options, fsdp::World& world, JobMemory& job) {
  if (options.threads != 0) return options.threads;
  if (job.attempt > 0 && job.threads.get() != 0) return job.threads.get();
  return std::stoll(from_first_rank(world, [&] { return std::to_string(threads_before(options)); }));
}

// The tensor parts of a checkpoint; empty if it is not of a run, or cannot be read.
std::string parts_of(const std::filesystem::path& checkpoint) try {
  const Notes notes = fsdp::checkpoint_notes(checkpoint);
  const RunSettings settings = settings_from_note(notes.at(kSettings));
  const auto parts = settings.find("--tensor-parts");
  return parts == settings.end() ? "1" : parts->second;  // of a version that had no parts
} catch (const std::exception&) {
  return "";
}

// As above, of the checkpoint that the run will go on from.
std::string saved_parts(const RunOptions& options) {
  if (const std::string named = named_checkpoint(options); !named.empty()) return parts_of(named);
  if (options.resume != "auto" || options.run.empty()) return "";
  for (const auto& checkpoint : checkpoints_of(options.run)) {
    if (const std::string parts = parts_of(checkpoint); !parts.empty()) return parts;
  }
  return "";
}

}  // namespace

void keep_parts(RunOptions& options, fsdp::World& world, const std::filesystem::path& checkpoint) {
  if (options.tensor_parts) return;
  const std::string parts =
      from_first_rank(world, [&] { return checkpoint.empty() ? saved_parts(options) : parts_of(checkpoint); });
  const auto number = whole_number_in(parts);
  if (!number || *number == options.tensor_parallel) return;
  options.tensor_parts = number;
  options.chosen.flags.insert("--tensor-parts");  // saved with the run
}

std::vector<std::string> resolve_for_job(RunOptions& options, fsdp::World& world, const data::Corpus& corpus,
                                         const FreeMemory& free, JobMemory& job) {
  const int64_t windows = corpus.windows(options.model.context);
  if (options.elastic.empty()) options.ranks = world.size();
  options.threads = threads_for_job(options, world, job);
  if (options.threads > 0) torch::set_num_threads(static_cast<int>(options.threads));
  options.threads = torch::get_num_threads();
  if (world.rank() == 0) job.threads.set(options.threads);
  keep_parts(options, world);
  plan_options(options, {.ranks = world.size(), .windows = windows}, world, free, job.attempt);
  return resolve(options, {.ranks = world.size(), .windows = windows, .is_known = true});
}

RunOptions as_run_by(int ranks, const RunOptions& options) {
  RunOptions divided = options;
  divided.ranks = ranks;
  const int64_t of_data = divided.data_ranks();
  divided.micro_batches = (options.micro_batches_of_step() + of_data - 1) / of_data;
  return divided;
}

}  // namespace trainer
