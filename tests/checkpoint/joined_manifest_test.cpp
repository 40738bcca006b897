#include "checkpoint/joined_manifest.h"

#include <gmock/gmock.h>

#include "checkpoint/manifest.h"
#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace fsdp::checkpoint {
namespace {

using fsdp::testing::message_of;
using layout::all_of_box;
using layout::part_of_whole;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<int64_t> kShape = {4, 6};

Manifest::Parameter parameter(const std::string& name, std::vector<layout::Placement> placements, double step = 0) {
  Manifest::Parameter one{.name = name, .shape = kShape, .strides = {6, 1}, .tensors = {{"model", "F32"}}};
  one.scalars = {{"optimizer.step", step}};
  for (auto& placement : placements) one.parts.push_back({.placement = std::move(placement)});
  return one;
}

Contribution of(int rank, std::vector<Manifest::Parameter> parameters) {
  Contribution one{.rank = rank, .manifest = {}};
  one.manifest.parameters = std::move(parameters);
  return one;
}

Manifest join_all(const std::vector<Contribution>& all, int ranks) {
  return joined(all, std::vector<WrittenFile>(all.size(), {8, std::string(32, 'a')}), ranks);
}

// Ranks 0 and 2 hold the left columns, rank 3 the right ones; rank 1 holds what rank 0 does.
std::vector<Contribution> columns() {
  const layout::Placement left = all_of_box(kShape, {{0, 4}, {0, 3}}), right = all_of_box(kShape, {{0, 4}, {3, 6}});
  layout::Placement first = left, second = left;
  first.range = {0, 7}, second.range = {7, 12};
  return {of(0, {parameter("a", {first}, 5), parameter("b", {}, 6)}),
          of(2, {parameter("a", {second}, 0), parameter("b", {part_of_whole(kShape, {10, 24})}, 0)}),
          of(3, {parameter("b", {part_of_whole(kShape, {0, 10})}, 7), parameter("a", {right}, 0)})};
}

TEST(JoinedManifest, HasAllPartsInTheOrderOfTheFirstRankWithTheNumbersOfTheFirstElements) {
  const Manifest manifest = join_all(columns(), 4);
  EXPECT_EQ(manifest.shards, 4);
  EXPECT_EQ(manifest.world_size, 4);
  EXPECT_EQ(file_name(manifest, 1), "shard-00003-of-00004.safetensors");
  ASSERT_EQ(manifest.parameters.size(), 2);
  const auto& [a, b] = std::pair(manifest.parameters[0], manifest.parameters[1]);
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.scalars.at("optimizer.step"), 5);
  EXPECT_EQ(b.scalars.at("optimizer.step"), 7);
  const auto files = [](const Manifest::Parameter& one) {
    std::vector<int> all;
    for (const auto& part : one.parts) all.push_back(part.file);
    return all;
  };
  EXPECT_THAT(files(a), ElementsAre(0, 1, 2));
  EXPECT_THAT(files(b), ElementsAre(2, 1));
}

TEST(JoinedManifest, IsTheSameFromTextAndInAFile) {
  const TemporaryFolder folder;
  std::vector<Contribution> all = columns();
  all[0].manifest.buffers = {{"mean", {3}, "F32"}};
  all[1].manifest.buffers = {{"mean", {3}, "F32"}, {"other", {}, "I64"}};
  const Manifest manifest = join_all(all, 4);
  for (Contribution& one : all) one.manifest = decode_contribution(encode(one.manifest));
  const Manifest from_text = join_all(all, 4);
  write_manifest(folder.path(), manifest);
  const Manifest from_file = read_manifest(folder.path());
  for (const Manifest& other : {from_text, from_file}) {
    ASSERT_EQ(other.parameters.size(), 2);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(other.parameters[i].name, manifest.parameters[i].name);
      EXPECT_EQ(other.parameters[i].shape, kShape);
      EXPECT_EQ(other.parameters[i].tensors, manifest.parameters[i].tensors);
      EXPECT_EQ(other.parameters[i].scalars, manifest.parameters[i].scalars);
      EXPECT_EQ(other.parameters[i].parts, manifest.parameters[i].parts);
    }
    ASSERT_EQ(other.buffers.size(), 2);
    EXPECT_EQ(other.buffers[0].file, 0);
    EXPECT_EQ(other.buffers[1].file, 1);
    ASSERT_EQ(other.files.size(), 3);
    EXPECT_THAT(other.writers, ElementsAre(0, 2, 3));
  }
}

TEST(JoinedManifest, TakesAPartThatSeveralRanksHoldOnce) {
  std::vector<Contribution> all = columns();
  all.insert(all.begin() + 1, of(1, {all[0].manifest.parameters[0]}));
  const Manifest manifest = join_all(all, 4);
  ASSERT_EQ(manifest.parameters[0].parts.size(), 3);
  EXPECT_EQ(manifest.parameters[0].parts[0].file, 0);
}

TEST(JoinedManifest, OfRanksThatDifferIsAnError) {
  std::vector<Contribution> all = columns();
  all[1].manifest.parameters[0].strides = {1, 4};
  EXPECT_THAT(message_of<Error>([&] { join_all(all, 4); }),
              HasSubstr("a has shape [4, 6] and strides [1, 4] on rank 2"));
  all = columns();
  all[2].manifest.parameters.pop_back();
  EXPECT_THAT(
      message_of<Error>([&] { join_all(all, 4); }),
      HasSubstr("the ranks' parts of a do not make it up: at part 1, expected parts with the 24 elements of its "
                "shape; these have 12"));
}

}  // namespace
}  // namespace fsdp::checkpoint
