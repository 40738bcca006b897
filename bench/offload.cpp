// A training step of a GPT whose shards, sums and optimizer state lie in files, against the same in memory and against
// what the disk alone needs for the bytes that a step writes and reads. Both models take steps in turns.
//
//   build/release/bench/bench_offload FOLDER [RANKS [WIDTH [BATCH [WHAT]]]]
//
// WHAT is state, unless it is activations, or recomputed: those of blocks that run again.
//
// `ratio` is the step from files by the larger of the step in memory and the disk's time. The disk's rates are measured
// in FOLDER at the beginning, past the page cache. What a step writes and reads is what /proc/self/io counts; with
// enough memory it reads nothing.
#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "median.h"
#include "models/gpt2.h"

namespace {

constexpr int64_t kVocabulary = 256, kLength = 256, kLayers = 8;
constexpr int kWarmUpSteps = 3, kSteps = 15;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Traffic {
  double read = 0, written = 0;  // bytes
};

// Of this process, to and from the disk.
Traffic traffic() {
  std::ifstream counters("/proc/self/io");
  Traffic traffic;
  std::string name;
  for (double value = 0; counters >> name >> value;) {
    if (name == "read_bytes:") traffic.read = value;
    if (name == "write_bytes:") traffic.written = value;
  }
  return traffic;
}

// Bytes per second.
struct Disk {
  double reads = 0, writes = 0;
};

Disk measure_disk(const std::string& folder) {
  constexpr size_t kBytes = size_t{1} << 30;
  const std::string path = folder + "/bench-offload";
  const std::vector<char> part(size_t{8} << 20, 'x');
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  unlink(path.c_str());
  Disk disk;
  double begin = now();
  for (size_t at = 0; at < kBytes; at += part.size()) (void)!pwrite(file, part.data(), part.size(), at);
  fdatasync(file);
  disk.writes = kBytes / (now() - begin);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> back(part.size());
  begin = now();
  for (size_t at = 0; at < kBytes; at += back.size()) (void)!pread(file, back.data(), back.size(), at);
  disk.reads = kBytes / (now() - begin);
  close(file);
  return disk;
}

class Training {
 public:
  Training(fsdp::World& world, int64_t width, int64_t batch, const std::string& what, fsdp::Options options = {})
      : world_(world),
        model_(make(width, what)),
        sharded_(fsdp::shard(*model_, world, with_blocks(std::move(options)))),
        optimizer_(sharded_),
        tokens_(torch::randint(kVocabulary, {batch, kLength}, torch::kInt64)) {}

  // Seconds; the ranks' barrier behind it counts.
  double step() {
    const double begin = now();
    model_->loss(tokens_, tokens_).backward();
    optimizer_.step();
    optimizer_.zero_grad();
    world_.barrier();
    return now() - begin;
  }
  fsdp::MemoryReport memory() const { return sharded_.memory(); }

 private:
  static std::shared_ptr<models::LanguageModel> make(int64_t width, const std::string& what) {
    torch::manual_seed(1);
    auto model = models::make_model(
        {.vocabulary = kVocabulary, .context = kLength, .width = width, .layers = kLayers, .heads = 8});
    if (what == "recomputed") model->set_recomputation({.blocks = kLayers});
    return model;
  }
  static fsdp::Options with_blocks(fsdp::Options options) {
    options.units = fsdp::units_of<models::Gpt2BlockImpl>();
    return options;
  }

  fsdp::World& world_;
  std::shared_ptr<models::LanguageModel> model_;
  fsdp::ShardedModel sharded_;
  fsdp::AdamW optimizer_;
  torch::Tensor tokens_;
};

fsdp::Options to_files(const std::string& folder, const std::string& what) {
  fsdp::Options options{.offload_directory = folder};
  if (what == "state") return options;
  options.offload = fsdp::Offload::Nothing;
  options.offload_activations = true;
  return options;
}

void run(fsdp::World& world, const std::string& folder, int64_t width, int64_t batch, const std::string& what) {
  torch::set_num_threads(1);
  Disk disk;
  if (world.rank() == 0) disk = measure_disk(folder);
  Training in_memory(world, width, batch, what), in_files(world, width, batch, what, to_files(folder, what));
  std::vector<double> memory, files, written, read;
  for (int i = 0; i < kWarmUpSteps + kSteps; ++i) {
    const double plain = in_memory.step();
    const Traffic before = traffic();
    const double offloaded = in_files.step();
    const Traffic after = traffic();
    if (i < kWarmUpSteps) continue;
    memory.push_back(plain);
    files.push_back(offloaded);
    written.push_back(after.written - before.written);
    read.push_back(after.read - before.read);
  }
  if (world.rank() != 0) return;
  // Ranks share the disk, and write as much as each other.
  const double ranks = world.size();
  const double disk_seconds = ranks * (median(written) / disk.writes + median(read) / disk.reads);
  const double limit = std::max(median(memory), disk_seconds);
  const fsdp::MemoryReport report = in_files.memory();
  fmt::print("disk {:.0f} MB/s written, {:.0f} MB/s read\n", disk.writes / 1e6, disk.reads / 1e6);
  fmt::print("a rank has {:.0f} MB in files; a step writes {:.0f} MB and reads {:.0f} MB\n",
             static_cast<double>(report.offloaded_bytes + report.peak_offloaded_activation_bytes) / 1e6,
             median(written) / 1e6, median(read) / 1e6);
  fmt::print("activations in memory at most {:.0f} MB, without files {:.0f} MB\n",
             static_cast<double>(report.peak_activation_bytes) / 1e6,
             static_cast<double>(in_memory.memory().peak_activation_bytes) / 1e6);
  fmt::print("step in memory {:.0f} ms, from files {:.0f} ms, disk alone {:.0f} ms: ratio {:.2f}\n",
             1e3 * median(memory), 1e3 * median(files), 1e3 * disk_seconds, median(files) / limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_offload FOLDER [RANKS [WIDTH [BATCH [WHAT]]]]\n");
    return 2;
  }
  const auto number = [&](int at, int64_t otherwise) { return argc > at ? std::stoll(argv[at]) : otherwise; };
  const std::string folder = argv[1], what = argc > 5 ? argv[5] : "state";
  return fsdp::launch({.ranks = static_cast<int>(number(2, 2)), .plain_rank0 = true},
                      [&](fsdp::World& world) { run(world, folder, number(3, 768), number(4, 4), what); });
}
