// A whole training program, to copy. A thread reads samples ahead, the learning rate rises and falls, and the model is
// evaluated. Any number of ranks resumes the checkpoints. In the end the weights are in a plain module.
//
//   train [FOLDER [STEPS [RANKS]]]
//
// stops after STEPS of 200 steps. Started again with the same folder, it goes on. The weights in the end are the same
// to the last bit, whether it was stopped or not, and on 1, 2 or 4 ranks.
#include <fsdp/fsdp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <random>
#include <string>
#include <vector>

namespace {

namespace nn = torch::nn;

constexpr int64_t kSamples = 4096, kUnseen = 1024;  // in the data set, and for evaluation
constexpr int64_t kBatch = 16, kMicroBatches = 4;   // samples per micro-batch, micro-batches per step
constexpr int64_t kSteps = 200, kWarmup = 20, kEvaluateEvery = 40, kSaveEvery = 40;
constexpr int64_t kLength = 64, kClasses = 8, kWidth = 64, kBlocks = 4;
constexpr double kRate = 2e-3;
constexpr uint64_t kSeed = 1;

// ---- Data. In place of this: your own, read by the number of the sample.

struct Batch {
  torch::Tensor inputs;     // [samples, kLength]
  torch::Tensor targets;    // [samples], int64
  int64_t micro_batch = 0;  // its number in the step, of all ranks together
};

// Noisy waves of kClasses frequencies. Each sample is made from its number alone.
class Waves {
 public:
  explicit Waves(uint64_t seed) : seed_(seed) {}

  Batch batch(const std::vector<int64_t>& numbers) const {
    const auto samples = static_cast<int64_t>(numbers.size());
    Batch batch{.inputs = torch::empty({samples, kLength}), .targets = torch::empty({samples}, torch::kInt64)};
    for (int64_t i = 0; i < samples; ++i) {
      std::mt19937_64 random(seed_ + static_cast<uint64_t>(numbers[static_cast<size_t>(i)]));
      const auto target = static_cast<int64_t>(random() % kClasses);
      const double begin = std::uniform_real_distribution<double>(0, 2 * M_PI)(random);
      std::normal_distribution<double> noise(0, 1);
      float* values = batch.inputs[i].data_ptr<float>();
      for (int64_t t = 0; t < kLength; ++t) {
        values[t] = static_cast<float>(std::sin(begin + 0.1 * static_cast<double>((target + 2) * t)) + noise(random));
      }
      batch.targets[i] = target;
    }
    return batch;
  }

 private:
  uint64_t seed_;
};

// Reads the next micro-batch in a thread while the model computes.
class Loader {
 public:
  Loader(const Waves& waves, const fsdp::Sampler& sampler) : waves_(waves), sampler_(sampler) { read_ahead(); }

  Batch next() {
    Batch batch = coming_.get();  // throws what the thread threw
    read_ahead();
    return batch;
  }
  // The position of the micro-batch that next() will return.
  const std::string& state() const { return state_; }

 private:
  void read_ahead() {
    state_ = sampler_.state();
    const int64_t number = sampler_.micro_batch();
    coming_ = std::async(std::launch::async, [this, number, samples = sampler_.next()] {
      Batch batch = waves_.batch(samples);
      batch.micro_batch = number;
      return batch;
    });
  }

  const Waves& waves_;
  fsdp::Sampler sampler_;  // one micro-batch ahead
  std::string state_;
  std::future<Batch> coming_;
};

// ---- The model: any torch::nn::Module.

struct BlockImpl : nn::Module {
  BlockImpl() {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return x + torch::dropout(down(torch::gelu(up(norm(x)))), 0.1, is_training());
  }
  nn::LayerNorm norm{nn::LayerNormOptions({kWidth})};
  nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
};
TORCH_MODULE(Block);

struct ClassifierImpl : nn::Module {
  ClassifierImpl() {
    for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block());
    register_module("first", first);
    register_module("blocks", blocks);
    register_module("last", last);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(blocks->forward(first(x))); }

  nn::Linear first{kLength, kWidth}, last{kWidth, kClasses};
  nn::Sequential blocks;
};
TORCH_MODULE(Classifier);

// ---- Training.

// Rises evenly over kWarmup steps, then falls along a cosine to a tenth.
double rate_of(int64_t step) {
  if (step < kWarmup) return kRate * static_cast<double>(step + 1) / kWarmup;
  const double done = static_cast<double>(step - kWarmup) / (kSteps - kWarmup);
  return kRate * (0.55 + 0.45 * std::cos(M_PI * done));
}

torch::Tensor loss_of(Classifier& model, const Batch& batch, const torch::Device& device) {
  return nn::functional::cross_entropy(model(batch.inputs.to(device)), batch.targets.to(device));
}

// The mean loss over unseen samples. Every rank runs equally many forward passes, as a pass may gather parameters from
// all ranks.
double evaluate(Classifier& model, fsdp::World& world) {
  torch::NoGradGuard no_gradients;
  model->eval();
  const Waves unseen(kSeed + kSamples);
  constexpr int64_t kBatches = kUnseen / kBatch;
  auto sum = torch::zeros({}, torch::kFloat64);
  for (int64_t first = 0; first < kBatches; first += world.size()) {
    const int64_t own = first + world.rank();
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < kBatch; ++i) numbers.push_back(std::min(own, kBatches - 1) * kBatch + i);
    const auto loss = loss_of(model, unseen.batch(numbers), world.device());
    if (own < kBatches) sum += loss.to(torch::kCPU, torch::kFloat64);
  }
  world.all_reduce_(sum);
  model->train();
  return sum.item<double>() / kBatches;
}

// The whole weights in a module without shards, on rank 0; the other ranks take part. Any program can load the file.
void export_plain(fsdp::ShardedModel& sharded, fsdp::World& world, const std::string& file) {
  const auto state = sharded.full_state({.rank0_only = true});
  if (world.rank() != 0) return;
  torch::NoGradGuard no_gradients;
  Classifier plain;
  auto parameters = plain->named_parameters();
  auto buffers = plain->named_buffers();
  for (const auto& [name, values] : state) {
    torch::Tensor* own = parameters.find(name);
    (own ? *own : buffers[name]).copy_(values);
  }
  plain->eval();
  torch::save(plain, file);
  std::printf("saved %s\n", file.c_str());
}

void train(fsdp::World& world, const std::string& folder, int64_t last) {
  torch::set_num_threads(1);  // the same on any number of ranks, for the same bits
  torch::manual_seed(kSeed);
  Classifier model;
  model->to(world.device());
  auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_of<BlockImpl>()});
  fsdp::AdamW optimizer(sharded, {.lr = kRate});
  sharded.set_gradient_divisor(kMicroBatches);
  fsdp::Sampler sampler(kSamples, world, {.batch_size = kBatch, .micro_batches = kMicroBatches, .seed = kSeed});

  fsdp::Checkpoint checkpoint{.model = &sharded, .optimizer = &optimizer};
  if (const auto loaded = fsdp::load_latest_checkpoint(folder, checkpoint)) {
    checkpoint.step = loaded->step;
    sampler.load_state(fsdp::checkpoint_notes(loaded->directory).at("sampler"));
    if (world.rank() == 0) std::printf("goes on after step %d\n", static_cast<int>(loaded->step));
  }
  const Waves waves(kSeed);
  Loader loader(waves, sampler);
  while (checkpoint.step < last) {
    optimizer.set_lr(rate_of(checkpoint.step));
    for (int64_t round = 0; round < sampler.rounds(); ++round) {
      const Batch batch = loader.next();
      fsdp::seed_micro_batch(kSeed, checkpoint.step, batch.micro_batch);  // for dropout
      loss_of(model, batch, world.device()).backward();
    }
    sharded.clip_grad_norm_(1.0);
    optimizer.step();
    optimizer.zero_grad();
    ++checkpoint.step;
    if (checkpoint.step % kEvaluateEvery == 0) {
      const double loss = evaluate(model, world);
      if (world.rank() == 0) std::printf("step %3d  loss %.4f\n", static_cast<int>(checkpoint.step), loss);
      std::fflush(stdout);
    }
    if (checkpoint.step % kSaveEvery == 0 || checkpoint.step == last) {
      checkpoint.notes = {{"sampler", loader.state()}};
      fsdp::save_checkpoint(folder + "/step-" + std::to_string(checkpoint.step), checkpoint);
    }
  }
  if (checkpoint.step == kSteps) export_plain(sharded, world, folder + "/model.pt");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "train-run";
  const int64_t last = std::min<int64_t>(argc > 2 ? std::atoi(argv[2]) : kSteps, kSteps);
  const int ranks = argc > 3 ? std::atoi(argv[3]) : 2;
  return fsdp::launch({.ranks = ranks}, [&](fsdp::World& world) { train(world, folder, last); });
}
