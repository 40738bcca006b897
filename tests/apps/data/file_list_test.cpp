#include "data/file_list.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using ::testing::HasSubstr;

std::string error_of(const TemporaryFolder& folder, Links links = Links::Followed) {
  return message_of<fsdp::Error>([&] { check_listed_files(folder.path(), links); });
}

TEST(FileList, NamesWhatLiesInTheFolder) {
  TemporaryFolder folder;
  folder.write("a", "abc");
  folder.write("b", "");
  write_file_list(folder.path());
  EXPECT_EQ(read_bytes(folder / "files.json"), "{\"files\":{\"a\":3,\"b\":0}}\n");
  EXPECT_EQ(error_of(folder), "no error");
  folder.write("c", "more does no harm");
  EXPECT_EQ(error_of(folder, Links::Refused), "no error");
}

TEST(FileList, FindsWhatIsMissingOrCut) {
  TemporaryFolder folder;
  folder.write("a", "abc");
  write_file_list(folder.path());
  folder.write("a", "ab");
  EXPECT_EQ(error_of(folder),
            "file '" + (folder / "a") + "' has 2 bytes, and files.json beside it tells of 3. Write or copy it again.");
  fs::remove(folder / "a");
  EXPECT_EQ(error_of(folder), "file '" + (folder / "a") + "' cannot be read: No such file or directory.");
}

TEST(FileList, RefusesLinksWhereTheyAreNotWanted) {
  TemporaryFolder folder;
  folder.write("a", "abc");
  write_file_list(folder.path());
  fs::rename(folder / "a", folder / "b");
  fs::create_symlink("b", folder / "a");
  EXPECT_EQ(error_of(folder), "no error");
  EXPECT_EQ(error_of(folder, Links::Refused), "file '" + (folder / "a") + "' is a symbolic link.");
}

TEST(FileList, RefusesAListThatLies) {
  TemporaryFolder folder;
  folder.write("a", "abc");
  for (const std::string& list :
       {std::string(), std::string("[]"), std::string("{\"files\": {}}"), std::string("{\"files\": [\"a\"]}"),
        std::string("{\"files\": {\"a\": -1}}"), std::string("{\"files\": {\"a\": 1e400}}"),
        std::string("{\"files\": {\"a\": 3.0}}"), std::string("{\"files\": {\"a\": \"3\"}}"),
        std::string("{\"files\": {\"a\": 9223372036854775808}}"), std::string("{\"files\": {\"a\": 3, \"a\": 3}}"),
        std::string("{\"files\": {\"../a\": 3}}"), std::string("{\"files\":") + std::string(200'000, '{')}) {
    folder.write("files.json", list);
    EXPECT_THAT(error_of(folder), HasSubstr("file list '" + (folder / "files.json") + "' is damaged: "))
        << list.substr(0, 100);
  }
}

TEST(FileList, NeedNotBeThere) {
  TemporaryFolder folder;
  check_listed_files_if_any(folder.path());
  EXPECT_THAT(error_of(folder), HasSubstr("files.json' cannot be read: No such file or directory"));
}

}  // namespace
}  // namespace data
