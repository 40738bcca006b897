#include "run/checkpoint_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using fsdp::testing::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST(CheckpointFolder, IsNamedByItsStep) {
  EXPECT_EQ(step_in_name("run/step-12"), 12);
  EXPECT_EQ(step_in_name("step-0/"), 0);
  EXPECT_EQ(step_in_name("step-9007199254740992"), int64_t{1} << 53);
  for (const char* name : {"step--1", "step-007", "step-9007199254740993", "step-", "step-1.5", "best", ""}) {
    EXPECT_EQ(step_in_name(name), std::nullopt) << name;
  }
}

TEST(CheckpointFolder, HasNotTheNameOfAnotherStep) {
  EXPECT_EQ(message_of([] { check_step_in_name("run/step-3", 3); }), "no error");
  EXPECT_EQ(message_of([] { check_step_in_name("run/best", 0); }), "no error");
  EXPECT_THAT(message_of<fsdp::Error>([] { check_step_in_name("run/step-3/", 0); }),
              AllOf(HasSubstr("run/step-3"), HasSubstr("its manifest says step 0")));
}

TEST(CheckpointFolder, HasTheBytesOfItsOwnFiles) {
  TemporaryFolder folder;
  folder.write("step-3/manifest.json", "12345");
  folder.write("step-3/shard-00001-of-00001.safetensors", "1234567890");
  folder.write("step-3/notes.txt", "of somebody else");
  EXPECT_EQ(bytes_of_checkpoint(folder / "step-3"), 15);
  EXPECT_EQ(bytes_of_checkpoint(folder / "step-4"), 0);
}

class Shards : public testing::Test {
 protected:
  std::string message_for(const std::string& manifest) {
    folder_.write("manifest.json", manifest);
    return message_of<fsdp::Error>([&] { check_shards(folder_.path()); });
  }
  TemporaryFolder folder_;
};

TEST_F(Shards, AreThoseThatTheFolderHolds) {
  const std::string two = R"({"format":"fsdp-checkpoint","shards":2})";
  folder_.write("shard-00001-of-00002.safetensors", "12345678");
  EXPECT_THAT(message_for(two),
              HasSubstr("shard-00002-of-00002.safetensors', one of 2 of its checkpoint, cannot be read"));
  folder_.write("shard-00002-of-00002.safetensors", "1234567");
  EXPECT_THAT(message_for(two), HasSubstr("is too short"));
  folder_.write("shard-00002-of-00002.safetensors", "12345678");
  EXPECT_EQ(message_for(two), "no error");
  EXPECT_NO_THROW(check_shards(folder_.path()));
}

TEST_F(Shards, AreNotWhatAManifestClaims) {
  for (const char* shards : {"1000000", "0", "-1", "1.5", "\"1\"", "1e300", "null", "99999999999999999999"}) {
    EXPECT_THAT(message_for(fmt::format(R"({{"format":"fsdp-checkpoint","shards":{}}})", shards)),
                HasSubstr("expected a whole number from 1 to 1024"))
        << shards;
  }
  EXPECT_THAT(message_for(R"({"shards":1})"), HasSubstr("no checkpoint"));
  EXPECT_THAT(message_for(std::string(200'000, '[')), HasSubstr("nest deeper"));
  EXPECT_THAT(message_for("{"), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace trainer
