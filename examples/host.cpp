// A program with threads of its own that learns while it runs: a simulation makes samples, a controller uses the
// weights, and each rank trains. The rules for such a program:
//
// 1. launch() comes first in main(): it forks, and a process that has threads cannot be forked. A process that has
//    threads already is started once per rank (by torchrun, mpirun, srun); launch() then forks nothing.
// 2. One thread uses the sharded model, its optimizer and its World. All ranks call them in the same order.
// 3. Other threads use plain copies of the weights.
// 4. The ranks decide together when to stop.
#include <fsdp/fsdp.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace {

namespace nn = torch::nn;

constexpr int64_t kBatch = 32, kMostSteps = 5000, kPublishEvery = 20;
constexpr size_t kMostWaiting = 4;
constexpr double kGoodEnough = 0.01;

// Batches on their way from the simulation's thread to the training thread.
class Queue {
 public:
  // Waits while the queue is full. Returns false if it was told to stop.
  bool push(torch::Tensor batch, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return waiting_.size() < kMostWaiting; })) return false;
    waiting_.push_back(std::move(batch));
    changed_.notify_all();
    return true;
  }
  torch::Tensor pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty(); });
    torch::Tensor batch = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    return batch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<torch::Tensor> waiting_;
};

nn::Sequential make_net() { return nn::Sequential(nn::Linear(2, 64), nn::Tanh(), nn::Linear(64, 1)); }

// The newest whole weights, in a module that no thread writes any more.
class Published {
 public:
  std::shared_ptr<nn::SequentialImpl> get() const {
    const std::scoped_lock lock(mutex_);
    return net_;
  }
  // Called by the training's thread on every rank.
  void publish(fsdp::ShardedModel& sharded) {
    torch::NoGradGuard no_gradients;
    const auto net = make_net();
    auto parameters = net->named_parameters();
    for (const auto& [name, values] : sharded.full_state()) parameters[name].copy_(values);
    const std::scoped_lock lock(mutex_);
    net_ = net.ptr();
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<nn::SequentialImpl> net_ = make_net().ptr();
};

torch::Tensor product_of(const torch::Tensor& inputs) { return inputs.prod(1, /*keepdim=*/true); }

void simulate(const std::stop_token& stop, Queue& queue, uint64_t seed) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  while (queue.push(torch::rand({kBatch, 2}, random), stop)) {
  }
}

// Uses the newest weights until they are good enough.
void control(const std::stop_token& stop, const Published& published, std::stop_source& good_enough) {
  torch::NoGradGuard no_gradients;
  const torch::Tensor inputs = torch::linspace(0, 1, 64).view({32, 2});
  while (!stop.stop_requested() && !good_enough.stop_requested()) {
    const double error = (published.get()->forward(inputs) - product_of(inputs)).abs().mean().item<double>();
    if (error < kGoodEnough) good_enough.request_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// True on every rank if the controller of any rank wants to stop.
bool ranks_stop(fsdp::World& world, bool here) {
  auto wants = torch::tensor(here ? 1 : 0);
  world.all_reduce_(wants);
  return wants.item<int64_t>() > 0;
}

void run(fsdp::World& world) {
  torch::manual_seed(1);
  torch::set_num_threads(1);
  auto net = make_net();
  auto sharded = fsdp::shard(*net, world);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-2});
  Queue queue;
  Published published;
  std::stop_source good_enough;
  // Each ends, and is waited for, when this function does, also by an exception.
  std::jthread simulation([&](const std::stop_token& stop) { simulate(stop, queue, 100 + world.rank()); });
  std::jthread controller([&](const std::stop_token& stop) { control(stop, published, good_enough); });
  int64_t step = 0;
  while (step < kMostSteps && !ranks_stop(world, good_enough.stop_requested())) {
    const torch::Tensor inputs = queue.pop();
    nn::functional::mse_loss(net->forward(inputs), product_of(inputs)).backward();
    optimizer.step();
    optimizer.zero_grad();
    if (++step % kPublishEvery == 0) published.publish(sharded);
  }
  if (world.rank() == 0) std::printf("stopped after %d steps\n", static_cast<int>(step));
}

}  // namespace

int main() { return fsdp::launch({.ranks = 2}, run); }
