// A save beside training that fails, meets another one, or is left alone: an error on every rank or a whole checkpoint,
// and never a hang.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/held_save.h"
#include "checkpoint/saved_training.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::files_of;
using fsdp::testing::HeldSave;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using fsdp::testing::RunResult;
using fsdp::testing::SavedTraining;
using fsdp::testing::SaveStep;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// The names in a folder of which none is hidden.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

class AsyncSaveFailure : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, AsyncSaveFailure, ::testing::Values(Job{3, "shm"}, Job{3, "gloo"}),
                         ::testing::PrintToStringParamName());

TEST_P(AsyncSaveFailure, OfOneRankIsAnErrorOnEveryRankAndLeavesWhatWasThere) {
  const ScratchDirectory scratch;
  run_rank_processes(GetParam(), [&](World& world) {
    const fs::path folder = scratch.path() / std::to_string(world.size()), saved = folder / "saved";
    SavedTraining run(world);
    save_checkpoint(saved, run.checkpoint());
    const auto before = files_of(saved);
    run.step();
    // The first of these is in a step of the thread's, the second in the write itself.
    for (const bool in_write : {false, true}) {
      std::optional<testing::FileSizeLimit> limit;
      checkpoint::background_saves_of(run.sharded.model()).watch_steps([&](SaveStep step) {
        if (world.rank() != 1 || step != SaveStep::Write) return;
        if (!in_write) throw Error("the disk is on fire");
        limit.emplace(100);
      });
      const PendingCheckpoint pending = save_checkpoint_async(saved, run.checkpoint());
      const std::string cause = in_write ? "File too large" : "the disk is on fire";
      for (int again = 0; again < 2; ++again) {
        const std::string message = message_of<Error>([&] { pending.wait(); });
        EXPECT_THAT(message, HasSubstr(cause));
        if (world.rank() != 1) EXPECT_THAT(message, AllOf(HasSubstr("saved failed on rank 1: "), HasSubstr("async")));
      }
      EXPECT_TRUE(pending.done());
      limit.reset();
      world.barrier();
      EXPECT_THAT(names_in(folder), ::testing::ElementsAre("saved"));
      EXPECT_TRUE(files_of(saved) == before);
      world.barrier();
      run.step();
    }
    checkpoint::background_saves_of(run.sharded.model()).watch_steps(nullptr);
    save_checkpoint_async(saved, run.checkpoint()).wait();
    world.barrier();
    EXPECT_EQ(latest_checkpoint(folder), saved);
    EXPECT_FALSE(files_of(saved) == before);
  });
}

TEST_P(AsyncSaveFailure, OfATargetThatCannotBeIsAnErrorOfTheWait) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    SavedTraining run(world);
    const PendingCheckpoint pending = save_checkpoint_async("/proc/none/checkpoint", run.checkpoint());
    run.step();
    EXPECT_THAT(message_of<Error>([&] { pending.wait(); }), HasSubstr("/proc/none"));
    Checkpoint damaged = run.checkpoint();
    damaged.notes = {{"bytes", "\xff"}};
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint_async(scratch.path() / "notes", damaged).wait(); }),
                HasSubstr("have to be UTF-8"));
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint_async(scratch.path() / "none", {}); }),
                HasSubstr("save_checkpoint_async: the model is missing"));
    EXPECT_THAT(
        message_of<Error>([&] { save_checkpoint_async(scratch.path() / "none", {.model = &run.sharded, .step = -1}); }),
        HasSubstr("save_checkpoint_async: found step -1"));
  });
}

// Rank 1 dies in the midst of it; the others find out in their save, not by a timeout.
TEST_P(AsyncSaveFailure, OfARankThatIsKilledIsAnErrorOfTheOthers) {
  const ScratchDirectory scratch;
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam().backend;
  const RunResult result = run_ranks_to_end(
      GetParam().ranks,
      [&](World& world) {
        SavedTraining run(world);
        run.step();
        checkpoint::background_saves_of(run.sharded.model()).watch_steps([&](SaveStep step) {
          if (world.rank() == 1 && step == SaveStep::Write) raise(SIGKILL);
        });
        save_checkpoint_async(scratch.path() / "saved", run.checkpoint()).wait();
      },
      options);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("(rank [02]/3|ranks 0, 2:).*rank 1.*(is gone|closed)"));
  EXPECT_FALSE(fs::exists(scratch.path() / "saved"));
}

TEST(AsyncSaves, ThatNobodyAsksAboutTellTheirErrors) {
  const ScratchDirectory scratch;
  const RunResult result = run_ranks_to_end(2, [&](World& world) {
    SavedTraining run(world);
    save_checkpoint_async("/proc/none/first", run.checkpoint());
    EXPECT_THAT(message_of([&] { save_checkpoint_async("/proc/none/asked", run.checkpoint()).wait(); }),
                HasSubstr("/proc/none"));
    save_checkpoint(scratch.path() / "whole", run.checkpoint());
    save_checkpoint_async("/proc/none/last", run.checkpoint());
  });
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string warning = "[fsdp rank 0/2] warning: save_checkpoint_async /proc/none/";
  EXPECT_THAT(result.output, AllOf(HasSubstr(warning + "first failed, and wait() was not called for its error: "),
                                   HasSubstr(warning + "last failed, and wait() was not called for its error: "),
                                   Not(HasSubstr(warning + "asked")), Not(HasSubstr("rank 1/2] warning"))));
}

TEST(AsyncSaves, OfAModelThatOutlivesTheRanksFunctionTellTheirErrors) {
  std::vector<RunResult> results;  // looked at when all are there: each call runs those before it once more
  for (const int ranks : {1, 2}) {
    results.push_back(run_ranks_to_end(ranks, [](World& world) {
      auto* const run = new SavedTraining(world);
      save_checkpoint_async("/proc/none/last", run->checkpoint());
    }));
  }
  for (const RunResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("warning: save_checkpoint_async /proc/none/last failed, and wait() was"),
                                     Not(HasSubstr("rank 1/2] warning"))));
  }
}

// Calls that come while a save is under way, and wait for it.
TEST(AsyncSaves, AreWaitedForByTheNextSaveAndLoad) {
  const ScratchDirectory scratch;
  const fs::path saved = scratch.path() / "saved", other = scratch.path() / "other";
  const std::vector<std::function<void(SavedTraining&)>> calls{
      [&](SavedTraining& run) { save_checkpoint_async(saved, run.checkpoint()); },
      [&](SavedTraining& run) { save_checkpoint_async(other, run.checkpoint()); },
      [&](SavedTraining& run) { save_checkpoint(saved, run.checkpoint()); },
      [&](SavedTraining& run) { EXPECT_EQ(load_checkpoint(saved, run.checkpoint()), 1); }};
  run_ranks(2, [&](World& world) {
    for (const auto& call : calls) {
      SavedTraining run(world);
      run.step();
      HeldSave held(run.sharded, SaveStep::Write);
      const PendingCheckpoint pending = save_checkpoint_async(saved, run.checkpoint());
      run.step();
      EXPECT_FALSE(pending.done());
      held.let_go_later();
      call(run);
      EXPECT_TRUE(pending.done());
      pending.wait();
    }
  });
}

TEST(AsyncSaves, OfTwoModelsGoOnAtOnce) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    SavedTraining first(world), second(world);
    first.step();
    HeldSave held(first.sharded, SaveStep::Write);
    const PendingCheckpoint pending = save_checkpoint_async(scratch.path() / "first", first.checkpoint());
    save_checkpoint_async(scratch.path() / "second", second.checkpoint()).wait();
    EXPECT_FALSE(pending.done());
    second.step();
    first.step();
    held.let_go();
    pending.wait();
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "first");
  });
}

TEST(AsyncSaves, HandlesMayBeCopiedDroppedAndOutliveTheModel) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    PendingCheckpoint pending;
    EXPECT_TRUE(pending.done());
    pending.wait();
    std::promise<void> let_go;
    std::thread later;
    {
      SavedTraining run(world);
      checkpoint::background_saves_of(run.sharded.model())
          .watch_steps([future = let_go.get_future().share()](SaveStep step) {
            if (step == SaveStep::Write) future.wait();
          });
      pending = save_checkpoint_async(scratch.path() / "saved", run.checkpoint());
      const PendingCheckpoint copy = pending;
      { PendingCheckpoint dropped = copy; }
      EXPECT_FALSE(copy.done());
      later = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        let_go.set_value();
      });
    }  // the end of the model waits
    later.join();
    EXPECT_TRUE(pending.done());
    pending.wait();
    EXPECT_TRUE(latest_checkpoint(scratch.path()));
  });
}

// How a process ends with a save under way.
struct End {
  std::string name;
  std::function<void()> end;
  int exit_code;
};
std::vector<End> ends() {
  return {{"Return", [] {}, 0},
          {"Exit", [] { std::exit(0); }, 0},
          {"Exception", [] { throw std::runtime_error("the loop broke off"); }, 1}};
}
class AsyncSaveEnd : public ::testing::TestWithParam<End> {};
INSTANTIATE_TEST_SUITE_P(By, AsyncSaveEnd, ::testing::ValuesIn(ends()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AsyncSaveEnd, ComesAfterTheCommit) {
  const ScratchDirectory scratch;
  for (const int ranks : {1, 2}) {
    const fs::path saved = scratch.path() / std::to_string(ranks);
    const RunResult result = run_ranks_to_end(ranks, [&](World& world) {
      SavedTraining run(world);
      run.step();
      checkpoint::background_saves_of(run.sharded.model()).watch_steps([](SaveStep step) {
        if (step == SaveStep::Write) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      });
      save_checkpoint_async(saved, run.checkpoint());
      run.step();
      GetParam().end();
    });
    EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.output;
    run_rank_processes(1, [&](World& world) {
      SavedTraining run(world);
      EXPECT_EQ(load_checkpoint(saved, run.checkpoint()), 1);
    });
  }
}

// As a program's global variables: a rank that was forked ends without destroying them.
TEST(AsyncSaves, OfAModelThatOutlivesTheRanksFunctionAreCommitted) {
  const ScratchDirectory scratch;
  for (const int ranks : {1, 2}) {
    const fs::path saved = scratch.path() / std::to_string(ranks);
    run_rank_processes(ranks, [&](World& world) {
      auto* const run = new SavedTraining(world);
      run->step();
      checkpoint::background_saves_of(run->sharded.model()).watch_steps([](SaveStep step) {
        if (step == SaveStep::Write) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      });
      save_checkpoint_async(saved, run->checkpoint());
    });
    run_rank_processes(1, [&](World& world) {
      SavedTraining run(world);
      EXPECT_EQ(load_checkpoint(saved, run.checkpoint()), 1);
    });
  }
}

}  // namespace
}  // namespace fsdp
