// Every recipe is one that fsdp-train can follow.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>

#include "apps/fsdp-train/train_program.h"

namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::string> recipes() {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(FSDP_RECIPES)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Recipe : public TrainProgram, public testing::WithParamInterface<std::string> {};

TEST_P(Recipe, IsReadAndPlanned) {
  const Ending ending = run_train("--dry-run --config " + GetParam());
  EXPECT_EQ(ending.code, 0) << ending.output;
  for (const char* part : {"parameters", "all ranks", "a step", "the run"}) EXPECT_THAT(ending.output, HasSubstr(part));
}

TEST_P(Recipe, IsRefusedWithAMistake) {
  const std::string mistaken = folder_.write("mistaken.toml", read_bytes(GetParam()) + "\n[modell]\nwidth = 3\n");
  const Ending ending = run_train("--dry-run --config " + mistaken);
  EXPECT_EQ(ending.code, 2) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("did you mean [model]?"));
}

// As their first lines say.
TEST_F(TrainProgram, PlansLargeModelsForLittleMemory) {
  for (const char* recipe : {"llama_1b", "llama_7b"}) {
    const Ending ending =
        run_train(fmt::format("--dry-run --memory 22GiB --peak-flops 75G --config {}/{}.toml", FSDP_RECIPES, recipe));
    EXPECT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output, ContainsRegex("memory              (barely )?fits: ")) << ending.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, Recipe, testing::ValuesIn(recipes()), [](const auto& recipe) {
  std::string name = fs::path(recipe.param).filename();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
});

}  // namespace
