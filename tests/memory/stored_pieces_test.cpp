// Pieces of a file: each has its bytes, the file grows no further than to the most, and the disk writes the oldest.
#include "memory/stored_pieces.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "fsdp/error.h"
#include "memory/pages.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"

namespace fsdp::memory {
namespace {

using ::fsdp::testing::FileSizeLimit;

class StoredPiecesTest : public ::testing::Test {
 protected:
  StoredPieces pieces(size_t behind, size_t ahead) const {
    return {MemoryFile::create(std::make_shared<const OffloadFolder>(scratch_.path(), 0)),
            {.behind = behind, .ahead = ahead}};
  }
  static int64_t put(StoredPieces& pieces, char value, size_t bytes) {
    const std::string values(bytes, value);
    return pieces.put(values.data(), bytes);
  }
  static std::string read(const StoredPieces& pieces, int64_t number, size_t bytes) {
    std::string values(bytes, '\0');
    EXPECT_EQ(pread(pieces.file().descriptor(), values.data(), bytes, static_cast<off_t>(pieces.offset_of(number))),
              static_cast<ssize_t>(bytes));
    return values;
  }

  TemporaryFolder scratch_;
};

TEST_F(StoredPiecesTest, KeepTheirBytesWhateverIsWrittenOrReadAhead) {
  for (const size_t limit : {size_t{0}, 3 * kPageBytes, size_t{1} << 30}) {
    StoredPieces all = pieces(limit, limit);
    std::vector<int64_t> numbers;
    for (char value = 'a'; value <= 'z'; ++value) numbers.push_back(put(all, value, 1000 + 3 * kPageBytes));
    for (char value = 'z'; value >= 'a'; --value) {
      const int64_t number = numbers[static_cast<size_t>(value - 'a')];
      all.is_wanted(number);
      EXPECT_EQ(read(all, number, 1000 + 3 * kPageBytes), std::string(1000 + 3 * kPageBytes, value));
      if (value % 2 == 0) all.give_back(number);
    }
  }
}

// As steps do: forwards put, backwards take, and one piece outlasts them.
TEST_F(StoredPiecesTest, TakeNoMoreOfTheDiskThanTheyEverDid) {
  StoredPieces all = pieces(/*behind=*/4 * kPageBytes, /*ahead=*/2 * kPageBytes);
  const int64_t kept = put(all, 'k', 10);
  size_t after_one_step = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<int64_t> numbers;
    for (size_t piece = 0; piece < 20; ++piece) numbers.push_back(put(all, 'p', 1 + piece * kPageBytes / 2));
    for (; !numbers.empty(); numbers.pop_back()) {
      all.is_wanted(numbers.back());
      all.give_back(numbers.back());
    }
    if (step == 0) after_one_step = all.file_bytes();
    EXPECT_EQ(all.file_bytes(), after_one_step);
  }
  EXPECT_EQ(read(all, kept, 10), std::string(10, 'k'));
}

TEST_F(StoredPiecesTest, ThatTheDiskRefusesTakeNothing) {
  const FileSizeLimit limit(8 * kPageBytes);
  StoredPieces all = pieces(0, 0);
  const int64_t first = put(all, 'a', 6 * kPageBytes);
  EXPECT_THROW(put(all, 'b', 6 * kPageBytes), Error);
  const int64_t second = put(all, 'c', 2 * kPageBytes);
  EXPECT_EQ(read(all, first, 6 * kPageBytes), std::string(6 * kPageBytes, 'a'));
  EXPECT_EQ(read(all, second, 2 * kPageBytes), std::string(2 * kPageBytes, 'c'));
}

}  // namespace
}  // namespace fsdp::memory
