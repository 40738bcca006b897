#include "apps/fsdp-train/train_job.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>

#include "support/temporary_folder.h"

using namespace std::chrono_literals;

namespace {

size_t steps_in(const std::string& file) {
  const std::string text = read_bytes(file);
  size_t count = 0;
  for (size_t at = text.find("\"loss\":"); at != std::string::npos; at = text.find("\"loss\":", at + 1)) ++count;
  return count;
}

size_t complete_lines(const std::string& file) {
  const std::string text = read_bytes(file);
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// A rank that is killed may still be in a system call, such as the renaming of a checkpoint. Whether anybody collects
// the orphan afterwards depends on the machine.
bool is_alive(pid_t process) {
  const std::string status = read_bytes("/proc/" + std::to_string(process) + "/status");
  return !status.empty() && status.find("\nState:\tZ") == std::string::npos;
}

}  // namespace

Job::Job(const std::string& arguments, const std::string& run, size_t steps) {
  const std::string pid_file = run + ".pid";
  // A process that leads no group yet becomes a leader without being forked.
  const std::string command =
      "sh -c 'echo $$ > " + pid_file + "; exec setsid " FSDP_TRAIN_PROGRAM " " + arguments + "'";
  ending_ = std::async(std::launch::async, [command] { return run_command(command); });
  while ((complete_lines(pid_file) == 0 || steps_in(run + "/metrics.jsonl") < steps) && !ends_within(2ms)) {
  }
  std::ifstream(pid_file) >> launcher_;
}

Job::~Job() {
  if (!ending_.valid() || launcher_ <= 1) return;
  kill(launcher_, SIGKILL);
  kill(group(), SIGKILL);
}

std::vector<pid_t> Job::ranks() const {
  const std::string id = std::to_string(launcher_);
  std::ifstream children("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(children), {}};
}

pid_t Job::rank(int index) const {
  const std::vector<pid_t> all = ranks();
  return static_cast<size_t>(index) < all.size() ? all[index] : -1;
}

bool Job::handles(int signal) const { return process_handles(signal, launcher_); }

bool Job::handles_in_rank(int signal, int index) const { return process_handles(signal, rank(index)); }

bool Job::process_handles(int signal, pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  const std::string label = "SigCgt:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(label)) return std::stoull(line.substr(label.size()), nullptr, 16) >> (signal - 1) & 1;
  }
  return false;
}

void Job::send(int signal, pid_t process) const {
  // Others would meet the test itself, or all that there is.
  ASSERT_TRUE(launcher_ > 1 && (process > 1 || process == group())) << "the job has not started";
  EXPECT_EQ(kill(process, signal), 0);
}

Ending Job::end_by(int signal, pid_t process) {
  const std::vector<pid_t> all = ranks();
  send(signal, process);
  Ending ending = ending_.get();
  while (std::any_of(all.begin(), all.end(), is_alive)) std::this_thread::sleep_for(1ms);
  return ending;
}
