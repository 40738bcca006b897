// Whatever the model, the mesh and the schedule: losses, norms, outputs and weights have the bits of one process with
// as many parts of divided layers.
//
// FSDP_PROPERTY_SEED=<seed> runs one case alone, and FSDP_PROPERTY_SEED=100-499 those of a range.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "property/mesh_training.h"
#include "property/seeds.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp::property {
namespace {

namespace fs = std::filesystem;
using ExpectedFacts = std::map<std::string, torch::Tensor>;

std::vector<uint64_t> mesh_seeds_for(const MeshCell& cell) {
  std::vector<uint64_t> seeds = tried_seeds(number_of_mesh_cases(), one_of_each_cell(testing::seed()));
  std::erase_if(seeds, [&](uint64_t seed) {
    return mesh_cell_of(seed).ranks != cell.ranks || mesh_cell_of(seed).backend != cell.backend;
  });
  return seeds;
}

// A rank writes them for all others.
void write_facts(const ExpectedFacts& facts, const fs::path& folder) {
  std::vector<torch::Tensor> values;
  std::ofstream names(folder / "names");
  for (const auto& [name, value] : facts) {
    names << name << "\n";
    values.push_back(value);
  }
  torch::save(values, (folder / "values").string());
}

ExpectedFacts read_facts(const fs::path& folder) {
  std::vector<torch::Tensor> values;
  torch::load(values, (folder / "values").string());
  ExpectedFacts facts;
  std::ifstream names(folder / "names");
  std::string name;
  for (const torch::Tensor& value : values) {
    std::getline(names, name);
    facts[name] = value;
  }
  return facts;
}

torch::Tensor part_of(const torch::Tensor& whole, const ParameterDivision& division) {
  std::vector<torch::Tensor> ranges;
  for (const auto& [begin, end] : division.ranges) ranges.push_back(whole.narrow(division.dim, begin, end - begin));
  return torch::cat(ranges, division.dim);
}

void expect_fact(const MeshFact& found, const ExpectedFacts& all) {
  ASSERT_TRUE(all.contains(found.name)) << found.name;
  const torch::Tensor& whole = all.at(found.name);
  const torch::Tensor expected = found.division ? part_of(whole, *found.division) : whole;
  EXPECT_TRUE(expected.isfinite().all().item<bool>()) << found.name;
  ASSERT_EQ(found.value.sizes(), expected.sizes()) << found.name;
  EXPECT_TRUE(torch::equal(found.value, expected))
      << found.name << " differs by up to " << (found.value - expected).abs().max().item<double>();
}

void check_mesh_case(const MeshCase& drawn, World& world, const fs::path& folder) {
  const World alone = world.split(world.rank());
  if (world.rank() == 0) {
    fs::create_directories(folder);
    write_facts(train_alone(drawn, alone), folder);
  }
  world.barrier();
  const ExpectedFacts expected = read_facts(folder);
  for (const MeshFact& found : train_on_mesh(drawn, world, folder / "saved")) expect_fact(found, expected);
}

void check_mesh_cases(World& world, const MeshCell& cell, const fs::path& scratch) {
  for (const uint64_t seed : mesh_seeds_for(cell)) {
    const MeshCase drawn = make_mesh_case(seed);
    const std::string words = fmt::format("FSDP_PROPERTY_SEED={}: {}", seed, drawn.words);
    if (world.rank() == 0) std::printf("%s\n", words.c_str());  // the last one, if the process does not come to the end
    SCOPED_TRACE(words);
    try {
      check_mesh_case(drawn, world, scratch / std::to_string(seed));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}\n{}", words, error.what()));
    }
  }
}

class MeshProperty : public ::testing::TestWithParam<MeshCell> {};

TEST_P(MeshProperty, RandomModelsHaveTheBitsOfOneProcess) {
  const MeshCell& cell = GetParam();
  if (mesh_seeds_for(cell).empty()) return;  // the run tries no case of them
  const testing::ScratchDirectory scratch;
  testing::run_ranks(cell.ranks, [&](World& world) { check_mesh_cases(world, cell, scratch.path()); },
                     {.backend = cell.backend, .timeout = std::chrono::seconds(120)});
}

INSTANTIATE_TEST_SUITE_P(Ranks, MeshProperty, ::testing::ValuesIn(mesh_cells()),
                         [](const auto& info) { return fmt::format("{}_{}", info.param.ranks, info.param.backend); });

}  // namespace
}  // namespace fsdp::property
