#include "run/run_files.h"

#include <gtest/gtest.h>

#include <set>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

TEST(RunFiles, OfAKilledProcessAreRemovedWhereTheyAreUnfinished) {
  const TemporaryFolder folder;
  const fs::path run = folder.path();
  fs::create_directories(run / "model");
  for (const char* name : {"sample.txt.partial-1", "config.json.partial-23", "sample-40.txt.partial-5",
                           "model/model.safetensors.partial-7"}) {
    folder.write(name, "a part");
  }
  const std::set<std::string> others = {"config.json", "model", "model.safetensors", "report.html.partial-3",
                                        "notes.partial-4"};
  for (const char* name : {"config.json", "model/model.safetensors", "report.html.partial-3", "notes.partial-4"}) {
    folder.write(name, "whole, or of another program");
  }
  remove_unfinished_files(run);
  EXPECT_EQ(names_in(run), others);
}

}  // namespace
}  // namespace trainer
