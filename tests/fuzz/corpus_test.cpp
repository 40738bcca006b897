// The inputs that are kept, each with its target: whole files to begin with, and every finding of the past.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "fuzz/targets.h"

namespace fsdp::fuzz {
namespace {

namespace fs = std::filesystem;

class FuzzCorpus : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, DoesNoHarm) {
  int inputs = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(FSDP_FUZZ_CORPUS) / GetParam().name)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(in), {});
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(GetParam().run(input));
    EXPECT_NO_THROW(GetParam().run(std::string_view(input).substr(0, input.size() / 2)));
    ++inputs;
  }
  EXPECT_GT(inputs, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& target) { return std::string(target.param.name); });

TEST(FuzzCorpora, AreOfTargetsThatThereAre) {
  std::set<std::string> names;
  for (const Target& target : targets()) names.insert(target.name);
  for (const auto& entry : fs::directory_iterator(FSDP_FUZZ_CORPUS)) {
    EXPECT_TRUE(names.contains(entry.path().filename())) << entry.path();
  }
}

}  // namespace
}  // namespace fsdp::fuzz
