#include "tokenizers/helper_process.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace tokenizers {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

// A shell writes the answers: its standard input is the socket.
HelperProcess shell(const std::string& script, int most_silence = HelperProcess::kMostSilence) {
  return HelperProcess({"sh", "-c", script}, most_silence);
}

constexpr const char* kYes = R"(printf '\000\003\000\000\000\000\000\000\000yes' >&0; )";
constexpr const char* kNo = R"(printf '\001\002\000\000\000\000\000\000\000no' >&0; )";

TEST(HelperProcess, AnswersAndRefuses) {
  HelperProcess process = shell(std::string(kYes) + kNo + kYes + "sleep 60");
  EXPECT_EQ(process.answer(), "yes");
  try {
    process.ask('E', "a text");
    ADD_FAILURE() << "it was no refusal";
  } catch (const HelperProcess::Refusal& refusal) {
    EXPECT_EQ(refusal.why, "no");
  }
  EXPECT_EQ(process.ask('E', "another"), "yes");
}

TEST(HelperProcess, ErrorsSayHowItEnded) {
  HelperProcess left = shell(std::string(kYes) + "exit 7");
  EXPECT_EQ(left.answer(), "yes");
  EXPECT_EQ(message_of<fsdp::Error>([&] { left.answer(); }), "sh ended by itself, with exit code 7");
  HelperProcess killed = shell("kill -9 $$");
  EXPECT_EQ(message_of<fsdp::Error>([&] { killed.answer(); }), "sh was ended by signal 9");
  HelperProcess gone = shell("exit 1");
  // More than a socket holds: somebody has to read it.
  EXPECT_THAT(message_of<fsdp::Error>([&] { gone.ask('E', std::string(64 << 20, 'x')); }), HasSubstr("exit code 1"));
  EXPECT_THAT(message_of<fsdp::Error>([] { HelperProcess({"/no/such/program"}); }),
              HasSubstr("/no/such/program cannot be started: No such file"));
}

TEST(HelperProcess, IsNotWaitedForWithoutEnd) {
  HelperProcess silent = shell("sleep 60", /*most_silence=*/1);
  EXPECT_EQ(message_of<fsdp::Error>([&] { silent.answer(); }), "sh gave no answer for 1 seconds");
  HelperProcess boasting = shell(R"(printf '\000\377\377\377\377\377\377\377\177' >&0; sleep 60)");
  EXPECT_THAT(message_of<fsdp::Error>([&] { boasting.answer(); }), HasSubstr("expected at most 1073741824"));
}

}  // namespace
}  // namespace tokenizers
