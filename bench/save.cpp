// Measures for how long saves keep training waiting: a GPT of 88 million parameters with AdamW, on ranks of this host
// that share its cores.
//
// Each round trains three times so many steps as lie between two saves: with none, with save_checkpoint_async before
// the first step, and with save_checkpoint there. Rank 0 prints medians over the rounds:
//
//   pause         what the training loop waits for a save: in the call, and where a step waits for the copy
//   of training   that, as a share of the time of those steps without a save
//   whole cost    by how much longer these steps take with a save, whatever the reason: beside training, copies and
//                 writes need cores, memory and disk that training needs too
//   until commit  from the call to the commit
//
// Then what a save and a load of the checkpoint take beside writing and reading as many bytes as plain files, by as
// many processes at the same time. Files are synced; what is read lies in the page cache.
//
//   build/release/bench/bench_save [--ranks 2] [--every 10] [--rounds 5] [--batch 4] [--folder /tmp]
#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "median.h"
#include "models/gpt2.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kVocabulary = 4096, kLength = 128;

struct Arguments {
  int ranks = 2, every = 10, rounds = 5;
  int64_t batch = 4;
  fs::path folder = fs::temp_directory_path();
};

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Training {
 public:
  Training(fsdp::World& world, const Arguments& arguments)
      : model_(make()),
        sharded_(fsdp::shard(*model_, world, {.units = fsdp::units_of<models::Gpt2BlockImpl>()})),
        optimizer_(sharded_),
        tokens_(torch::randint(kVocabulary, {arguments.batch, kLength}, torch::kInt64)),
        targets_(torch::randint(kVocabulary, {arguments.batch, kLength}, torch::kInt64)) {}

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      model_->loss(tokens_, targets_).backward();
      optimizer_.step();
      optimizer_.zero_grad();
    }
  }
  fsdp::Checkpoint checkpoint() { return {.model = &sharded_, .optimizer = &optimizer_}; }

 private:
  static std::shared_ptr<models::LanguageModel> make() {
    torch::manual_seed(1);
    return models::make_model({.vocabulary = kVocabulary, .context = kLength, .width = 768, .layers = 12, .heads = 12});
  }

  std::shared_ptr<models::LanguageModel> model_;
  fsdp::ShardedModel sharded_;
  fsdp::AdamW optimizer_;
  torch::Tensor tokens_, targets_;
};

void check(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string(what) + " failed");
}

void write_plain(const fs::path& file, const std::vector<char>& bytes) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  check(descriptor >= 0, "open");
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = write(descriptor, bytes.data() + at, bytes.size() - at);
    check(count > 0, "write");
    at += static_cast<size_t>(count);
  }
  check(fsync(descriptor) == 0 && close(descriptor) == 0, "fsync");
}

void read_plain(const fs::path& file, std::vector<char>& bytes) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  check(descriptor >= 0, "open");
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = read(descriptor, bytes.data() + at, bytes.size() - at);
    check(count > 0, "read");
    at += static_cast<size_t>(count);
  }
  close(descriptor);
}

struct Rounds {
  std::vector<double> without, beside, waited, pause, waited_pause, commit;
};

Rounds run_rounds(fsdp::World& world, const Arguments& arguments, Training& training, const fs::path& folder) {
  training.steps(3);
  fsdp::save_checkpoint_async(folder / "beside", training.checkpoint()).wait();  // makes its connections and its memory
  Rounds rounds;
  for (int round = 0; round < arguments.rounds; ++round) {
    world.barrier();
    rounds.without.push_back(seconds_of([&] { training.steps(arguments.every); }));
    fsdp::PendingCheckpoint pending;
    world.barrier();
    rounds.beside.push_back(seconds_of([&] {
      pending = fsdp::save_checkpoint_async(folder / "beside", training.checkpoint());
      training.steps(arguments.every);
    }));
    pending.wait();
    rounds.pause.push_back(pending.seconds_paused());
    rounds.commit.push_back(pending.seconds());
    world.barrier();
    rounds.waited.push_back(seconds_of([&] {
      rounds.waited_pause.push_back(
          seconds_of([&] { fsdp::save_checkpoint(folder / "waited-for", training.checkpoint()); }));
      training.steps(arguments.every);
    }));
  }
  return rounds;
}

void print(const Arguments& arguments, const Rounds& rounds) {
  const double without = median(rounds.without);
  fmt::print("{} ranks, a save every {} steps, a step of {} x {} tokens per rank: {:.3f} s\n\n", arguments.ranks,
             arguments.every, arguments.batch, kLength, without / arguments.every);
  fmt::print("{:<24}{:>10}{:>14}{:>14}{:>14}\n", "", "pause", "of training", "whole cost", "until commit");
  const auto line = [&](const char* name, const std::vector<double>& pause, const std::vector<double>& whole,
                        double commit) {
    fmt::print("{:<24}{:>8.4f} s{:>12.2f} %{:>12.2f} s{:>12.2f} s\n", name, median(pause),
               100 * median(pause) / without, median(whole) - without, commit);
  };
  line("save_checkpoint_async", rounds.pause, rounds.beside, median(rounds.commit));
  line("save_checkpoint", rounds.waited_pause, rounds.waited, median(rounds.waited_pause));
}

void compare_with_plain_files(fsdp::World& world, const Arguments& arguments, Training& training,
                              const fs::path& folder) {
  const std::string shard = fmt::format("shard-{:05}-of-{:05}.safetensors", world.rank() + 1, world.size());
  const fs::path plain = folder / fmt::format("plain-{}", world.rank());
  std::vector<char> bytes(fs::file_size(folder / "waited-for" / shard));
  std::vector<double> saves, writes, loads, reads;
  for (int round = 0; round < arguments.rounds; ++round) {
    const auto measure = [&](std::vector<double>& into, const std::function<void()>& body) {
      world.barrier();
      into.push_back(seconds_of([&] {
        body();
        world.barrier();
      }));
    };
    measure(saves, [&] { fsdp::save_checkpoint(folder / "waited-for", training.checkpoint()); });
    measure(writes, [&] { write_plain(plain, bytes); });
    measure(loads, [&] { fsdp::load_checkpoint(folder / "waited-for", training.checkpoint()); });
    measure(reads, [&] { read_plain(plain, bytes); });
  }
  if (world.rank() != 0) return;
  const double gigabytes = static_cast<double>(bytes.size()) * world.size() / 1e9;
  const auto rate = [&](const std::vector<double>& seconds) { return gigabytes / median(seconds); };
  fmt::print("\n{:.2f} GB: saved at {:.2f} GB/s, plain files are written at {:.2f}; loaded at {:.2f}, read at {:.2f}\n",
             gigabytes, rate(saves), rate(writes), rate(loads), rate(reads));
}

void measure(fsdp::World& world, const Arguments& arguments) {
  const fs::path folder = arguments.folder / "fsdp-bench-save";
  if (world.rank() == 0) fs::create_directories(folder);
  Training training(world, arguments);
  const Rounds rounds = run_rounds(world, arguments, training, folder);
  if (world.rank() == 0) print(arguments, rounds);
  compare_with_plain_files(world, arguments, training, folder);
  world.barrier();
  if (world.rank() == 0) fs::remove_all(folder);
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  CLI::App app("For how long saves keep training waiting.");
  app.add_option("--ranks", arguments.ranks, "of this host, with its cores shared evenly");
  app.add_option("--every", arguments.every, "steps between saves");
  app.add_option("--rounds", arguments.rounds, "of measurements");
  app.add_option("--batch", arguments.batch, "sequences of 128 tokens per rank");
  app.add_option("--folder", arguments.folder, "where the checkpoints are written");
  CLI11_PARSE(app, count, words);
  return fsdp::launch({.ranks = arguments.ranks, .plain_rank0 = true},
                      [&](fsdp::World& world) { measure(world, arguments); });
}
