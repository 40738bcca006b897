// The metadata of a distributed checkpoint is checked before a file is opened.
#include "formats/dcp_metadata.h"

#include <gmock/gmock.h>

#include <random>

#include "fsdp/error.h"
#include "support/message_of.h"

namespace fsdp::formats {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

DcpMetadata whole() {
  DcpMetadata metadata;
  metadata.tensors = {{"model.w", {"model", "w"}, torch::kFloat32, {4, 3}, {{{0, 0}, {4, 3}, "__0_0.distcp", 0, 900}}},
                      {"step", {"step"}, torch::kInt64, {}, {{{}, {}, "__0_0.distcp", 900, 800}}}};
  return metadata;
}

std::string refusal(const DcpMetadata& metadata) {
  return message_of<Error>([&] { parse_dcp_metadata(dcp_metadata_text(metadata), "dcp/.metadata"); });
}

TEST(DcpMetadataTest, SaysWhatWasWritten) {
  const DcpMetadata expected = whole(), found = parse_dcp_metadata(dcp_metadata_text(expected), "x");
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    const DcpMetadata::Tensor &a = found.tensors[i], &b = expected.tensors[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.path, b.path);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.shape, b.shape);
    ASSERT_EQ(a.chunks.size(), 1u);
    EXPECT_EQ(a.chunks[0].offsets, b.chunks[0].offsets);
    EXPECT_EQ(a.chunks[0].sizes, b.chunks[0].sizes);
    EXPECT_EQ(a.chunks[0].file, b.chunks[0].file);
    EXPECT_EQ(a.chunks[0].begin, b.chunks[0].begin);
    EXPECT_EQ(a.chunks[0].bytes, b.chunks[0].bytes);
  }
}

TEST(DcpMetadataTest, ChunksThatCannotBeAreRefused) {
  const auto with = [](auto change) {
    DcpMetadata metadata = whole();
    change(metadata.tensors[0].chunks[0]);
    return refusal(metadata);
  };
  EXPECT_THAT(with([](auto& chunk) { chunk.sizes = {2, 3}; }), HasSubstr("do not make up its shape"));
  EXPECT_THAT(with([](auto& chunk) { chunk.offsets = {1, 0}; }), HasSubstr("is not in its shape"));
  EXPECT_THAT(with([](auto& chunk) { chunk.sizes = {4, INT64_MAX}; }), HasSubstr("is not in its shape"));
  EXPECT_THAT(with([](auto& chunk) { chunk.offsets = {0}; }), HasSubstr("is not in its shape"));
  EXPECT_THAT(with([](auto& chunk) { chunk.bytes = 47; }), HasSubstr("more elements than are stored"));
  EXPECT_THAT(with([](auto& chunk) { chunk.bytes = 901; }), HasSubstr("the same bytes"));
  EXPECT_THAT(with([](auto& chunk) { chunk.begin = INT64_MAX; }), HasSubstr("64 bits"));
  for (const char* file : {"../x.distcp", "/etc/passwd", "a/b.distcp", "..", "", "a\\b", "a\nb"}) {
    EXPECT_THAT(with([&](auto& chunk) { chunk.file = file; }), HasSubstr("expected the bare name")) << file;
  }
}

TEST(DcpMetadataTest, ATensorMayNotBeLargerThanMemory) {
  DcpMetadata metadata = whole();
  metadata.tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THAT(refusal(metadata), HasSubstr("more elements than memory can hold"));
}

TEST(DcpMetadataTest, RandomChangesAreAnswersOrErrors) {
  const std::string text = dcp_metadata_text(whole());
  std::mt19937 random(4);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = text;
    for (int k = 0; k < 1 + i % 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::string said = message_of<Error>([&] { parse_dcp_metadata(bytes, "dcp/.metadata"); });
    refused += said != "no error";
    if (said != "no error") EXPECT_TRUE(said.find("dcp/.metadata") != std::string::npos) << said;
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace fsdp::formats
