// Meshes of real ranks.
#include "fsdp/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Job;
using testing::message_of;
using testing::run_ranks;

using Numbers = std::vector<int64_t>;

// The `number` of each rank of the world, in its order.
Numbers gathered(World world, int64_t number) {
  Numbers numbers;
  for (const torch::Tensor& one : world.all_gather(torch::tensor(number))) numbers.push_back(one.item<int64_t>());
  return numbers;
}

// Expects a world with these ranks of the job, and calls of all kinds among them.
void expect_ranks(World world, int own, const Numbers& expected) {
  ASSERT_EQ(world.size(), static_cast<int>(expected.size()));
  EXPECT_EQ(expected[world.rank()], own);
  EXPECT_EQ(gathered(world, own), expected);
  torch::Tensor sum = torch::tensor(int64_t{own}), first = sum.clone();
  world.all_reduce_(sum);
  EXPECT_EQ(sum.item<int64_t>(), std::accumulate(expected.begin(), expected.end(), int64_t{0}));
  world.broadcast_(first);
  EXPECT_EQ(first.item<int64_t>(), expected[0]);
  world.barrier();
}

class MeshOfRanks : public ::testing::TestWithParam<Job> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam(), body); }
};

class MeshOfFour : public MeshOfRanks {};

TEST_P(MeshOfFour, HasWorldsAlongItsAxes) {
  run([](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    const int rank = world.rank();
    EXPECT_EQ(mesh.coordinate("data"), rank / 2);
    EXPECT_EQ(mesh.coordinate("tensor"), rank % 2);
    EXPECT_EQ(mesh.size("data"), 2);
    EXPECT_THAT(mesh.axes(), ElementsAre(std::pair<std::string, int>("data", 2), std::pair("tensor", 2)));
    expect_ranks(mesh["data"], rank, {rank % 2, rank % 2 + 2});
    expect_ranks(mesh["tensor"], rank, {rank / 2 * 2, rank / 2 * 2 + 1});
    expect_ranks(mesh.world(), rank, {0, 1, 2, 3});
    EXPECT_EQ(mesh["tensor"].state(), mesh["tensor"].state());
    expect_ranks(world, rank, {0, 1, 2, 3});
  });
}

TEST_P(MeshOfFour, HasWorldsOfOneRankAlongAxesOfSizeOne) {
  run([](World& world) {
    const Mesh mesh(world, {{"stage", 1}, {"data", 4}, {"tensor", 1}});
    const int rank = world.rank();
    EXPECT_EQ(mesh.coordinate("stage"), 0);
    EXPECT_EQ(mesh.coordinate("data"), rank);
    expect_ranks(mesh["stage"], rank, {rank});
    expect_ranks(mesh["tensor"], rank, {rank});
    expect_ranks(mesh["data"], rank, {0, 1, 2, 3});
    expect_ranks(mesh.over({"tensor", "stage"}), rank, {rank});
  });
}

TEST_P(MeshOfFour, IsAHandleThatOutlivesItsWorld) {
  run([](World& world) {
    std::vector<Mesh> copies;
    {
      World split = world.split(0);
      copies.emplace_back(split, std::vector<std::pair<std::string, int>>{{"data", 2}, {"tensor", 2}});
    }
    copies.push_back(copies[0]);
    Mesh moved = std::move(copies[0]);
    EXPECT_EQ(moved["data"].state(), copies[1]["data"].state());
    expect_ranks(moved["data"], world.rank(), {world.rank() % 2, world.rank() % 2 + 2});
  });
}

TEST_P(MeshOfFour, OfASplitWorldNamesTheRanksOfTheJob) {
  run([](World& world) {
    const int part = world.rank() % 2;
    const Mesh mesh(world.split(part), {{"data", 2}});  // a temporary world
    EXPECT_EQ(mesh.coordinate("data"), world.rank() / 2);
    expect_ranks(mesh["data"], world.rank(), {part, part + 2});
    EXPECT_THAT(mesh.to_string(), HasSubstr(part == 0 ? "     0  2  " : "     1  3  "));
    const Mesh inner(mesh["data"], {{"one", 1}, {"two", 2}});
    expect_ranks(inner["two"], world.rank(), {part, part + 2});
  });
}

TEST_P(MeshOfFour, OfASplitWorldNamesARankOfTheJobInErrors) {
  run([](World& world) {
    World other = world.split(world.rank() < 2);  // ranks 2 and 3 have numbers 0 and 1 there
    const Mesh mesh(other, {{"data", 2}});
    World data = mesh["data"];
    torch::Tensor tensor = torch::zeros({world.rank() % 2 + 1});
    EXPECT_THAT(
        message_of<Error>([&] { data.all_reduce_(tensor); }),
        HasSubstr(world.rank() < 2 ? "rank 1 (data 1) found all_reduce_" : "rank 3 (data 1) found all_reduce_"));
  });
}

TEST_P(MeshOfFour, IsAnErrorOnAllRanksIfItsAxesDiffer) {
  run([](World& world) {
    const int last = world.rank() == 2 ? 4 : 2;
    const auto make = [&] { Mesh(world, {{"data", 4 / last}, {"tensor", last}}); };
    EXPECT_THAT(message_of<Error>(make),
                HasSubstr("Mesh: rank 2 found the axes data 1 x tensor 4, expected data 2 x tensor 2 as on rank 0. "
                          "Pass the same axes on every rank."));
    const std::string name = world.rank() == 3 ? "tensr" : "tensor";
    EXPECT_THAT(message_of<Error>([&] {
                  Mesh(world, {{"data", 2}, {name, 2}});
                }),
                HasSubstr("rank 3 found the axes data 2 x tensr 2, expected data 2 x tensor 2"));
    const std::string long_name(2000, static_cast<char>('a' + world.rank()));
    EXPECT_THAT(message_of<Error>([&] {
                  Mesh(world, {{long_name, 4}});
                }),
                ContainsRegex("axes b+\\.\\.\\., .* a+\\.\\.\\."));
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});  // the world goes on
    EXPECT_THAT(message_of<Error>([&] {
                  mesh.over({"data", world.rank() == 1 ? "data" : "tensor"});
                }),
                HasSubstr("Mesh::over: rank 1 found the axes data x data, expected data x tensor as on rank 0"));
    expect_ranks(mesh.over({"data", "tensor"}), world.rank(), {0, 1, 2, 3});
  });
}

TEST_P(MeshOfFour, IsAnErrorIfItsAxesDoNotFit) {
  run([](World& world) {
    EXPECT_THAT(message_of<Error>([&] {
                  Mesh(world, {{"data", 2}, {"tensor", 4}});
                }),
                AllOf(HasSubstr("found data 2 x tensor 4 = 8 ranks, expected 4, the size of the world"),
                      HasSubstr("\nUse data 1 x tensor 4, or data 2 x tensor 2.")));
    EXPECT_THAT(message_of<Error>([&] { Mesh(world, {}); }), HasSubstr("found no axes"));
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    for (const auto& call : std::map<std::string, std::function<void()>>{
             {"operator[]", [&] { mesh["stage"]; }},
             {"coordinate", [&] { mesh.coordinate("stage"); }},
             {"size", [&] { mesh.size("stage"); }},
             {"over",
              [&] {
                mesh.over({"data", "stage"});
              }},
         })
      EXPECT_EQ(message_of<Error>(call.second), "[fsdp rank " + std::to_string(world.rank()) +
                                                    "/4] Mesh::" + call.first +
                                                    ": found the axis \"stage\", expected one of: data, tensor.");
    EXPECT_THAT(message_of<Error>([&] { mesh.over({}); }), HasSubstr("Mesh::over: found no axes"));
    EXPECT_THAT(message_of<Error>([&] { mesh.over({"data", "data"}); }), HasSubstr("the axis \"data\" twice"));
    expect_ranks(mesh["data"], world.rank(), {world.rank() % 2, world.rank() % 2 + 2});
  });
}

class MeshOfEight : public MeshOfRanks {};

TEST_P(MeshOfEight, HasWorldsAlongAndOverItsAxes) {
  run([](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"stage", 2}, {"tensor", 2}});
    const int rank = world.rank(), data = rank / 4, stage = rank / 2 % 2, tensor = rank % 2;
    EXPECT_EQ(mesh.coordinate("data"), data);
    EXPECT_EQ(mesh.coordinate("stage"), stage);
    EXPECT_EQ(mesh.coordinate("tensor"), tensor);
    const auto at = [](int data, int stage, int tensor) { return int64_t{data * 4 + stage * 2 + tensor}; };
    expect_ranks(mesh["data"], rank, {at(0, stage, tensor), at(1, stage, tensor)});
    expect_ranks(mesh["stage"], rank, {at(data, 0, tensor), at(data, 1, tensor)});
    expect_ranks(mesh["tensor"], rank, {at(data, stage, 0), at(data, stage, 1)});
    // In the order of the mesh, whatever the order of the names.
    const Numbers both{at(0, stage, 0), at(0, stage, 1), at(1, stage, 0), at(1, stage, 1)};
    expect_ranks(mesh.over({"data", "tensor"}), rank, both);
    expect_ranks(mesh.over({"tensor", "data"}), rank, both);
    expect_ranks(mesh.over({"stage"}), rank, {at(data, 0, tensor), at(data, 1, tensor)});
    expect_ranks(mesh.over({"data", "stage", "tensor"}), rank, {0, 1, 2, 3, 4, 5, 6, 7});
  });
}

TEST_P(MeshOfEight, IsDrawn) {
  run([](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 4}});
    EXPECT_THAT(mesh.to_string(), ContainsRegex("^data 2 x tensor 4: 8 ranks on 1 host\n"
                                                "data  tensor 0  1  2  3  host\n"
                                                "   0         0  1  2  3  [^ ]+\n"
                                                "   1         4  5  6  7  [^ ]+\n$"));
  });
}

#ifdef FSDP_WITH_GLOO
const std::vector<std::string> kMeshBackends{"shm", "gloo"};
#else
const std::vector<std::string> kMeshBackends{"shm"};
#endif

std::vector<Job> jobs_of(int ranks) {
  std::vector<Job> jobs;
  for (const std::string& backend : kMeshBackends) jobs.push_back({ranks, backend});
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Backends, MeshOfFour, ::testing::ValuesIn(jobs_of(4)), ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Backends, MeshOfEight, ::testing::ValuesIn(jobs_of(8)), ::testing::PrintToStringParamName());

TEST(MeshOfOne, IsNoSpecialCase) {
  run_ranks(1, [](World& world) {
    const Mesh mesh(world, {{"data", 1}, {"tensor", 1}});
    expect_ranks(mesh["data"], 0, {0});
    expect_ranks(mesh.over({"data", "tensor"}), 0, {0});
    EXPECT_THAT(message_of<Error>([&] { Mesh(world, {{"data", 2}}); }), HasSubstr("Use data 1."));
  });
}

}  // namespace
}  // namespace fsdp
