#include "world_calls.h"

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "repetitions.h"

namespace contestant {

namespace {

using Tensors = std::vector<torch::Tensor>;

// The arguments of the calls: a tensor of the given bytes, its parts for each rank, and a second tensor of its size.
struct Operands {
  Operands(const fsdp::World& world, const Json& command)
      : whole(torch::full({bytes_of(command) / kElementBytes}, world.rank() + 1, torch::kFloat32)),
        parts(whole.chunk(world.size())),
        other(torch::zeros_like(whole)) {}

  torch::Tensor whole;
  Tensors parts;
  torch::Tensor other;
};

// Returns this rank's result.
using Call = std::function<Tensors(fsdp::World& world, Operands& operands)>;

// There and back between each even rank and the next one.
Tensors ping_pong(fsdp::World& world, Operands& operands) {
  const int peer = world.rank() ^ 1;
  if (world.rank() < peer) world.send(operands.whole, peer);
  world.receive_(operands.other, peer);
  if (world.rank() > peer) world.send(operands.other, peer);
  return {operands.other};
}

Tensors broadcast_one_by_one(fsdp::World& world, Operands& operands) {
  if (world.rank() > 0) world.receive_(operands.whole, 0);
  for (int peer = 1; world.rank() == 0 && peer < world.size(); ++peer) world.send(operands.whole, peer);
  return {operands.whole};
}

const std::map<std::string, Call>& calls() {
  using fsdp::World;
  static const std::map<std::string, Call> all = {
      {"broadcast", [](World& world, Operands& of) { return world.broadcast_(of.whole), Tensors{of.whole}; }},
      {"broadcast, one by one", broadcast_one_by_one},
      {"all_reduce", [](World& world, Operands& of) { return world.all_reduce_(of.whole), Tensors{of.whole}; }},
      {"reduce", [](World& world, Operands& of) { return world.reduce_(of.whole), Tensors{of.whole}; }},
      {"reduce, broadcast",
       [](World& world, Operands& of) {
         world.reduce_(of.whole);
         world.broadcast_(of.whole);
         return Tensors{of.whole};
       }},
      {"reduce_scatter", [](World& world, Operands& of) { return Tensors{world.reduce_scatter(of.whole)}; }},
      {"all_gather", [](World& world, Operands& of) { return world.all_gather(of.parts[world.rank()]); }},
      {"gather", [](World& world, Operands& of) { return world.gather(of.parts[world.rank()]); }},
      {"scatter",
       [](World& world, Operands& of) { return Tensors{world.scatter(world.rank() == 0 ? of.parts : Tensors())}; }},
      {"all_to_all", [](World& world, Operands& of) { return world.all_to_all(of.parts); }},
      {"ping-pong", ping_pong},
  };
  return all;
}

double sum_of(const Tensors& tensors) {
  double sum = 0;
  for (const torch::Tensor& tensor : tensors) sum += tensor.sum(torch::kFloat64).item<double>();
  return sum;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The first call, on each rank's number, is not measured: its result is answered. The others are of zeros. Before each
// one all ranks meet.
Json measure_call(fsdp::World& world, const Json& command, const Call& call) {
  Operands operands(world, command);
  compute_for_a_moment();
  const double sum = sum_of(call(world, operands));
  operands.whole.zero_();
  Json begins = Json::array(), ends = Json::array();
  for (int64_t i = 0; i < command.at("repetitions"); ++i) {
    world.barrier();
    begins.push_back(now());
    call(world, operands);
    ends.push_back(now());
  }
  return {{"sum", sum}, {"begins", begins}, {"ends", ends}};
}

}  // namespace

Deeds world_calls(fsdp::World& world) {
  Deeds deeds;
  for (const auto& [name, call] : calls())
    deeds["call: " + name] = [&world, call](const Json& command) { return measure_call(world, command, call); };
  return deeds;
}

}  // namespace contestant
