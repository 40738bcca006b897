// Four ranks on this machine as a grid of two axes, and a sum along each.
#include <fsdp/fsdp.h>

#include <cstdio>
#include <string>

namespace {

void add_up(fsdp::World& world) {
  fsdp::Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
  if (world.rank() == 0) std::printf("%s", mesh.to_string().c_str());

  std::string line = "data " + std::to_string(mesh.coordinate("data"));
  line += ", tensor " + std::to_string(mesh.coordinate("tensor"));
  for (const char* axis : {"data", "tensor"}) {
    auto sum = torch::tensor(world.rank());
    mesh[axis].all_reduce_(sum);
    line += ", sum along " + std::string(axis) + " " + std::to_string(sum.item<int64_t>());
  }
  std::printf("%s\n", line.c_str());
}

}  // namespace

int main() { return fsdp::launch({.ranks = 4}, add_up); }
