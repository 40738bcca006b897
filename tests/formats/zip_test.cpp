// Zip files are what was written; one whose sizes or places cannot be is an error before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "formats/crc32.h"
#include "formats/zip_format.h"
#include "formats/zip_reader.h"
#include "formats/zip_writer.h"
#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace fsdp::formats {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ZipTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "x.zip"; }

  // Two entries, after `before` bytes of something else.
  std::string written(const std::string& before = "") {
    std::filesystem::remove(path());
    files::DurableFile file(path());
    file.append(before);
    ZipWriter zip(file);
    zip.add("x/data.pkl", "pickle");
    zip.add("x/data/0", std::string(1000, 'a'));
    zip.finish();
    file.close();
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void write(const std::string& bytes) { std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes; }

  std::string refusal(const std::string& bytes) {
    write(bytes);
    return message_of<Error>([&] { read_all(); });
  }

  std::map<std::string, std::string> read_all(int64_t begin = 0) {
    const files::OpenFile file = files::open_regular(path(), path().string());
    const ZipReader zip(file, begin, file.bytes - begin, path().string());
    std::map<std::string, std::string> contents;
    for (const auto& [name, entry] : zip.entries()) contents[name] = zip.read(name, 1 << 20);
    return contents;
  }

 private:
  TemporaryFolder folder_;
};

// The check value of CRC-32 in Greg Cook's catalogue (https://reveng.sourceforge.io/crc-catalogue/).
TEST(Crc32, HasItsCheckValueHoweverTheBytesCome) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32(0, digits.data(), digits.size()), 0xCBF43926u);
  for (size_t cut = 0; cut <= digits.size(); ++cut) {
    const uint32_t first = crc32(0, digits.data(), cut);
    EXPECT_EQ(crc32(first, digits.data() + cut, digits.size() - cut), 0xCBF43926u);
  }
}

TEST_F(ZipTest, HasWhatWasWritten) {
  const std::map<std::string, std::string> expected = {{"x/data.pkl", "pickle"}, {"x/data/0", std::string(1000, 'a')}};
  written();
  EXPECT_EQ(read_all(), expected);
  written("12345");
  EXPECT_EQ(read_all(5), expected);
}

TEST_F(ZipTest, EntriesBeginAtMultiplesOf64) {
  for (const std::string before : {"", "1234567"}) {
    written(before);
    const files::OpenFile file = files::open_regular(path(), "x");
    const auto begin = static_cast<int64_t>(before.size());
    const ZipReader zip(file, begin, file.bytes - begin, "x");
    for (const auto& [name, entry] : zip.entries()) EXPECT_EQ((zip.data_of(name) - begin) % 64, 0) << name;
  }
}

TEST_F(ZipTest, OneChangedBitIsNeverUnnoticedInAnEntry) {
  const std::string whole = written();
  std::mt19937 random(2);
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    write(bytes);
    try {
      for (const auto& [name, contents] : read_all()) {
        EXPECT_TRUE(contents == "pickle" || contents == std::string(1000, 'a')) << name;
      }
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("x.zip"));
    }
  }
}

TEST_F(ZipTest, WhatIsCutOffIsRefused) {
  const std::string whole = written();
  for (size_t size = 0; size < whole.size(); size += 7) EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("x.zip"));
}

// The directory's entry of x/data/0, whose fields a test changes.
class ZipDirectoryTest : public ZipTest {
 protected:
  template <typename Number>
  std::string with(size_t offset, Number number) {
    std::string bytes = written();
    const size_t entry = bytes.rfind(std::string_view("PK\x01\x02", 4));
    std::memcpy(bytes.data() + entry + offset, &number, sizeof number);
    return refusal(bytes);
  }
};

TEST_F(ZipDirectoryTest, FieldsThatCannotBeAreRefused) {
  EXPECT_THAT(with<uint16_t>(8, 1), HasSubstr("encrypted"));
  EXPECT_THAT(with<uint16_t>(10, 8), HasSubstr("compressed"));
  EXPECT_THAT(with<uint32_t>(16, 0), HasSubstr("checksum"));
  EXPECT_THAT(with<uint32_t>(20, 999), HasSubstr("damaged"));            // bytes in the file
  EXPECT_THAT(with<uint32_t>(24, 0xFFFFFFFE), HasSubstr("damaged"));     // and unpacked
  EXPECT_THAT(with<uint32_t>(24, 0xFFFFFFFF), HasSubstr("64 bits"));     // without a zip64 field
  EXPECT_THAT(with<uint16_t>(28, 0xFFFF), HasSubstr("ends too early"));  // the name
  EXPECT_THAT(with<uint32_t>(42, 0), HasSubstr("something else"));       // the header of another entry
  EXPECT_THAT(with<uint32_t>(42, 0x7FFFFFFF), HasSubstr("damaged"));
}

TEST_F(ZipTest, EntriesMayNotHaveOneNameNorMoreBytesThanTheFile) {
  files::DurableFile file(path());
  ZipWriter zip(file);
  zip.add("x", "1");
  zip.add("x", "2");
  zip.finish();
  file.close();
  EXPECT_THAT(message_of<Error>([&] { read_all(); }), HasSubstr("two entries called x"));
}

}  // namespace
}  // namespace fsdp::formats
