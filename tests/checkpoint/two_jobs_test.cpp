// Two jobs save to one path again and again, and are killed at random moments: there is a whole checkpoint at any time.
//
// A job is two processes, as two ranks of a job: the first makes the directory and commits it, each writes its shard.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "checkpoint/manifest.h"
#include "checkpoint/partial_directory.h"
#include "files/content_hash.h"
#include "files/durable_file.h"
#include "fsdp/error.h"
#include "support/temporary_folder.h"

namespace fsdp::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kShards = 2;

WrittenFile write_shard(const fs::path& partial, int shard, const std::string& bytes) {
  files::DurableFile file(partial / shard_file_name(shard, kShards));
  for (int i = 0; i < 50; ++i) file.append(bytes);
  file.close();
  std::string all;
  for (int i = 0; i < 50; ++i) all += bytes;
  return {file.bytes(), files::hash_of(all.data(), all.size())};
}

// Order from the first rank of a job to the second.
struct Order {
  int64_t save = 0;
  char path[256] = {};
};

// The second rank of a job: writes its shard whenever it is told, and says 'y' or 'n'.
[[noreturn]] void be_second_rank(pid_t first, int told, int answer) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != first) _exit(0);  // it was killed before the request above
  for (Order order; read(told, &order, sizeof order) == sizeof order;) {
    char done = 'y';
    try {
      write_shard(order.path, 1, std::to_string(order.save) + " of the second\n");
    } catch (const Error&) {
      done = 'n';
    }
    if (::write(answer, &done, 1) != 1) break;
  }
  _exit(0);
}

void save_once(const fs::path& target, int64_t save, int tell, int answer) {
  PartialDirectory partial(target);
  const fs::path path = partial.path();
  Order order{.save = save};
  path.string().copy(order.path, sizeof order.path - 1);
  if (::write(tell, &order, sizeof order) != sizeof order) _exit(2);
  Manifest manifest{.world_size = 2, .shards = kShards, .step = save, .parameters = {}, .notes = {}, .files = {}};
  manifest.files.push_back(write_shard(path, 0, std::to_string(save) + " of the first\n"));
  char done = 'n';
  if (read(answer, &done, 1) != 1) _exit(2);
  if (done == 'n') throw Error("the second rank could not write");
  const fs::path second = path / shard_file_name(1, kShards);
  const std::string bytes = read_bytes(second);
  manifest.files.push_back({static_cast<int64_t>(bytes.size()), files::hash_of(bytes.data(), bytes.size())});
  write_manifest(path, manifest);
  partial.commit();
}

// Saves until it is killed. Both of its processes are of one group.
pid_t start_job(const fs::path& target, unsigned seed) {
  const pid_t job = fork();
  setpgid(job, job);  // whichever of the two comes first
  if (job != 0) return job;
  int tell[2], answer[2];
  if (pipe(tell) != 0 || pipe(answer) != 0) _exit(2);
  const pid_t first = getpid();
  if (fork() == 0) be_second_rank(first, tell[0], answer[1]);
  std::mt19937 random(seed);
  for (;;) {
    try {
      save_once(target, static_cast<int64_t>(random() % 1'000'000), tell[1], answer[0]);
    } catch (const Error&) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));  // the other job saves
    }
  }
}

// The step of the checkpoint, when all of it is there.
std::optional<int64_t> step_of_whole(const fs::path& target) {
  const Manifest manifest = read_manifest(target);
  for (int shard = 0; shard < kShards; ++shard) {
    const std::string bytes = read_bytes(target / shard_file_name(shard, kShards));
    if (files::hash_of(bytes.data(), bytes.size()) != manifest.files[shard].hash) return std::nullopt;
    if (!bytes.starts_with(std::to_string(manifest.step) + " of the ")) return std::nullopt;
  }
  return manifest.step;
}

struct Jobs {
  ~Jobs() {
    for (const pid_t job : pids) {
      kill(-job, SIGKILL);
      waitpid(job, nullptr, 0);
    }
  }
  pid_t pids[2];
};

TEST(TwoJobs, ThatSaveToOnePathAndAreKilledNeverLeaveAHalfOne) {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "step-1";
  std::mt19937 random(3);
  Jobs both{{start_job(target, random()), start_job(target, random())}};
  pid_t(&jobs)[2] = both.pids;
  while (!fs::exists(target)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  int changes = 0;
  int64_t last = -1;
  for (int kill_number = 0; kill_number < 200; ++kill_number) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    pid_t& victim = jobs[random() % 2];
    kill(victim, SIGKILL);  // the second rank hears of it a moment later
    waitpid(victim, nullptr, 0);
    const pid_t other = victim == jobs[0] ? jobs[1] : jobs[0];
    kill(-other, SIGSTOP);  // wherever it is
    siginfo_t stopped{};
    waitid(P_PID, static_cast<id_t>(other), &stopped, WSTOPPED | WEXITED);
    ASSERT_EQ(stopped.si_code, CLD_STOPPED);
    const std::optional<int64_t> step = step_of_whole(target);
    EXPECT_TRUE(step) << "after kill " << kill_number;
    changes += step != last;
    last = step.value_or(-1);
    kill(-other, SIGCONT);
    victim = start_job(target, random());
  }
  EXPECT_GT(changes, 20);  // or nothing was tried
}

}  // namespace
}  // namespace fsdp::checkpoint
