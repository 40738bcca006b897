// Files of strangers are opened without waiting and read without surprises.
#include "files/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace fsdp::files {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

std::string opening(const std::string& path) {
  return message_of<Error>([&] { open_regular(path, "weights 'w'"); });
}

TEST(OpenRegular, WaitsForNoPipeAndReadsNoDevice) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(opening(folder / "pipe"), "weights 'w' cannot be read: it is not a regular file.");
  EXPECT_EQ(opening("/dev/zero"), "weights 'w' cannot be read: it is not a regular file.");
  EXPECT_EQ(opening(folder.path()), "weights 'w' cannot be read: it is not a regular file.");
}

TEST(OpenRegular, NamesWhatIsMissingAndLoopsOfLinks) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_EQ(opening(folder / "none"), "weights 'w' cannot be read: No such file or directory.");
  EXPECT_THAT(opening(folder / "loop"), HasSubstr("weights 'w' cannot be read: Too many levels of symbolic links"));
}

TEST(OpenRegular, FollowsLinks) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.write("blob", "12345"), folder / "model");
  EXPECT_EQ(open_regular(folder / "model", "m").bytes, 5);
}

TEST(ReadExactly, SaysWhereAFileThatWasCutEnds) {
  const TemporaryFolder folder;
  const OpenFile file = open_regular(folder.write("f", "0123456789"), "f");
  std::string bytes(4, ' ');
  read_exactly(file, 6, bytes.data(), 4, "f");
  EXPECT_EQ(bytes, "6789");
  std::filesystem::resize_file(folder / "f", 8);
  EXPECT_EQ(message_of<Error>([&] { read_exactly(file, 6, bytes.data(), 4, "weights 'f'"); }),
            "weights 'f' ends at byte 8, 2 bytes too early. Was it cut?");
}

TEST(ReadWhole, RefusesWhatIsLargerThanItMayBeBeforeItReads) {
  const TemporaryFolder folder;
  folder.write("f", "");
  std::filesystem::resize_file(folder / "f", int64_t{1} << 40);  // takes no room
  EXPECT_THAT(message_of<Error>([&] { read_whole(folder / "f", "config 'f'", 1 << 20); }),
              HasSubstr("config 'f' has 1099511627776 bytes, expected at most 1048576"));
}

}  // namespace
}  // namespace fsdp::files
