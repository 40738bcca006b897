#include "training/train.h"

#include <fmt/format.h>

#include <utility>

#include "console/terminal.h"
#include "data/text_files.h"
#include "options/settings.h"
#include "run/first_rank.h"
#include "run/fresh_folder.h"
#include "run/problems.h"
#include "run/refuse_together.h"
#include "run/slow_choices.h"
#include "training/job.h"
#include "training/job_options.h"
#include "training/memory_guard.h"
#include "training/train_rank.h"

namespace trainer {

namespace {

void choose_run_folder(fsdp::World& world, RunOptions& options, JobMemory& job, EmptyFolderGuard& guard) {
  if (options.run.empty()) {
    options.run = from_first_rank(world, make_run_folder);
    if (world.rank() == 0) guard.watch(options.run);
  }
  if (world.rank() == 0) job.run.set(options.run);
}

// Warnings for ranks on CPUs.
std::string warnings(const fsdp::World& world, const RunOptions& options) {
  std::string text;
  if (!world.device().is_cpu()) return text;
  for (const std::string& choice : slow_choices(options, world.local_size(), is_started_as_rank(), read_processor())) {
    text += fmt::format("warning: {}\n", choice);
  }
  return text;
}

void run_rank(fsdp::World& world, const RunOptions& given, const data::Corpus& corpus,
              const std::vector<std::string>& problems, const FreeMemory& free, JobMemory& job) {
  RunOptions options = given;
  EmptyFolderGuard guard;
  try {
    if (refuse_together(world, problems) ||
        refuse_together(world, resolve_for_job(options, world, corpus, free, job))) {
      return job.refused.set();
    }
    check_activation_memory(world, options);
    check_memory(world, as_run_by(world.size(), options), free);
    choose_run_folder(world, options, job, guard);
    RunMesh mesh(world, options);
    bool is_shown = world.rank() != 0 || job.attempt > 0;
    const auto show_settings = [&] {
      if (std::exchange(is_shown, true)) return;
      print(settings_table(options, corpus, mesh.places()) + "\n" + data::passed_over_text(corpus.passed_over) +
            warnings(world, options));
    };
    if (const int number = train_rank(mesh, options, corpus, job, show_settings); number != 0) job.signal.set(number);
  } catch (const AgreedError& error) {
    // A hopeless failure came during training: the options and files that were given are not to blame.
    const bool is_hopeless = job.hopeless.is_set();
    if (world.rank() == 0) {
      is_hopeless ? print_error(fmt::format("{}\n", error.what())) : print_problems({error.what()});
    }
    if (!is_hopeless) job.refused.set();
  }
}

}  // namespace

int train(const RunOptions& given, const data::Corpus& corpus, const std::vector<std::string>& problems) {
  JobMemory job;
  const FreeMemory free_here = free_memory();
  return run_job(given, job, [&](const RunOptions& options, fsdp::World& world) {
    run_rank(world, options, corpus, problems, free_here, job);
  });
}

}  // namespace trainer
