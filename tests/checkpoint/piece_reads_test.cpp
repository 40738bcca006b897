// Runs of bytes from the hashed blocks of a file.
#include "checkpoint/piece_reads.h"

#include <gmock/gmock.h>

#include <fstream>
#include <random>

#include "checkpoint/safetensors.h"
#include "support/temporary_folder.h"

namespace fsdp::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PieceReads : public ::testing::Test {
 protected:
  static constexpr int64_t kBytes = 5 * kHashBlockBytes / 2;

  PieceReads() {
    saved_ = write_safetensors(folder_ / "file", {{"a", values_}, {"b", torch::ones({100})}}, {}, Hashes::InHeader);
    bytes_ = static_cast<const char*>(values_.const_data_ptr());
  }

  TemporaryFolder folder_;
  torch::Tensor values_ = torch::randint(256, {kBytes}, torch::kByte);
  const char* bytes_ = nullptr;
  WrittenFile saved_;
};

TEST_F(PieceReads, FillEveryRunAndNothingElse) {
  const ShardFile file(folder_ / "file", saved_);
  const auto& entry = file.entry("a", "U8", {kBytes});
  std::mt19937 random(3);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int i = 0; i < 60; ++i) {
    ShardFile::Wanted wanted{.begin = below(kBytes / 2)};
    wanted.bytes = 1 + below(i % 3 == 0 ? kBytes / 2 : 5000);
    wanted.count = 1 + below(i % 3 == 0 ? 1 : 200);
    wanted.step = wanted.count == 1 ? 0 : wanted.bytes + below(i % 3 == 1 ? 100 : 500'000);
    while (wanted.end() > kBytes) --wanted.count;
    if (wanted.count == 1) wanted.step = 0;
    wanted.step_into = wanted.count == 1 ? 0 : wanted.bytes + below(10);
    const auto size = static_cast<size_t>((wanted.count - 1) * wanted.step_into + wanted.bytes);
    std::string found(size, '*'), expected(size, '*'), head(10, '*');
    wanted.into = found.data();
    for (int64_t run = 0; run < wanted.count; ++run) {
      expected.replace(static_cast<size_t>(run * wanted.step_into), static_cast<size_t>(wanted.bytes),
                       bytes_ + wanted.begin + run * wanted.step, static_cast<size_t>(wanted.bytes));
    }
    // Another read shares the first block.
    EXPECT_THAT(
        read_and_check({{&file, &entry, wanted}, {&file, &entry, {.begin = 5, .bytes = 10, .into = head.data()}}}),
        IsEmpty());
    ASSERT_TRUE(found == expected) << i;
    ASSERT_EQ(head, std::string(bytes_ + 5, 10));
  }
}

TEST_F(PieceReads, NameADamagedBlockOnceAndReadNoOther) {
  {
    std::fstream file(folder_ / "file", std::ios::binary | std::ios::in | std::ios::out);
    const SafetensorsFile tensors(folder_ / "file");
    const auto data_begin = tensors.bytes() - tensors.entries().back().end;
    for (const auto& entry : tensors.entries()) {
      if (entry.name != "a") continue;
      file.seekp(static_cast<std::streamoff>(data_begin + entry.begin + kHashBlockBytes + 7));
      file.put(static_cast<char>(bytes_[kHashBlockBytes + 7] ^ 1));
    }
  }
  const ShardFile file(folder_ / "file", saved_);
  const auto& entry = file.entry("a", "U8", {kBytes});
  std::string into(1000, ' ');
  const PieceRead runs{
      &file,
      &entry,
      {.begin = kHashBlockBytes, .bytes = 10, .into = into.data(), .count = 50, .step = 20, .step_into = 10}};
  const PieceRead checked{&file, &entry, {.begin = kHashBlockBytes + 100, .bytes = 10}};
  EXPECT_THAT(read_and_check({runs, checked}), ElementsAre(HasSubstr("bytes 1048576 to 2097152 of tensor a")));
  const PieceRead around{
      &file,
      &entry,
      {.begin = 0, .bytes = 10, .into = into.data(), .count = 2, .step = 2 * kHashBlockBytes, .step_into = 10}};
  EXPECT_THAT(read_and_check({around}), IsEmpty());
}

}  // namespace
}  // namespace fsdp::checkpoint
