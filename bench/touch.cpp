// The cost of one touch: a tiny operator on a sharded parameter, against the same operator on a plain tensor. The
// difference is what the library adds to every operator that reads parameters.
//
//   build/release/bench/bench_touch --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <string>
#include <vector>

namespace {

torch::Tensor one_element() { return torch::ones({1}, torch::requires_grad()); }

fsdp::NamedUnit unit_of(const std::string& name, const torch::Tensor& parameter) {
  fsdp::NamedUnit unit;
  unit.name = name;
  unit.parameters = {{name + ".weight", parameter}};
  return unit;
}

// Adds to each of `tensors` in turn; one iteration is one operator.
void add_in_turn(benchmark::State& state, const std::vector<torch::Tensor>& tensors) {
  torch::NoGradGuard no_gradients;
  size_t turn = 0;
  for (auto _ : state) {
    torch::Tensor sum = at::add(tensors[turn], 1.0);
    benchmark::DoNotOptimize(sum);
    turn = turn + 1 == tensors.size() ? 0 : turn + 1;
  }
}

void run(fsdp::World& world) {
  torch::set_num_threads(1);
  const torch::Tensor plain = one_element(), first = one_element(), second = one_element();
  auto sharded = fsdp::shard({unit_of("first", first), unit_of("second", second)}, world);

  auto add_benchmark = [](const char* name, std::vector<torch::Tensor> tensors) {
    benchmark::RegisterBenchmark(name, [tensors](benchmark::State& state) { add_in_turn(state, tensors); });
  };
  add_benchmark("plain tensor", {plain});
  add_benchmark("sharded parameter", {first});
  add_benchmark("sharded parameters of two units in turn", {first, second});
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();  // the tensors go before the world does
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return fsdp::launch({.ranks = 1}, run);
}
