// JSON of any kind is a value or an error that names its file.
#include "files/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace fsdp::files {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string error_of_json(const std::string& text) {
  return message_of<Error>([&] { parse_json(text, "manifest 'm'"); });
}

TEST(ParseJson, NestsAsDeepAsItMayAndNoDeeper) {
  const auto nested = [](int depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_EQ(error_of_json(nested(kDeepestJson)), "no error");
  for (const int depth : {kDeepestJson + 1, 200'000}) {
    EXPECT_EQ(error_of_json(nested(depth)), "manifest 'm' is damaged: its values nest deeper than 64 levels.");
    EXPECT_EQ(error_of_json(repeated("{\"a\":", depth)),
              "manifest 'm' is damaged: its values nest deeper than 64 levels.");
  }
}

TEST(ParseJson, CountsNoBracketsInStrings) {
  EXPECT_EQ(
      parse_json("[\"" + repeated("[", 1000) + "\\\"" + repeated("{", 1000) + "\\\\\"]", "m")[0].get<std::string>(),
      repeated("[", 1000) + "\"" + repeated("{", 1000) + "\\");
}

TEST(ParseJson, RefusesAKeyThatIsGivenTwiceInOneObject) {
  EXPECT_EQ(error_of_json(R"({"a": 1, "b": {"a": 2}, "a": 3})"), "manifest 'm' is damaged: it names a twice.");
  EXPECT_EQ(error_of_json(R"([{"a": 1}, {"a": 2}])"), "no error");
}

// The time grows with the number of keys and not with its square, or the number is limited.
TEST(ParseJson, TakesManyKeysInTheOrderOfTheirLettersAlone) {
  std::string keys;
  for (int i = 300'000; i > 0; --i) keys += (keys.empty() ? "\"" : ", \"") + std::to_string(i) + "\": 0";
  EXPECT_EQ(parse_json("{" + keys + "}", "m").size(), 300'000u);
  EXPECT_EQ(message_of<Error>([&] { parse_ordered_json("{" + keys + "}", "m"); }),
            "m has an object of more than 4096 keys.");
  EXPECT_EQ(parse_ordered_json(R"({"b": 1, "a": 2})", "m").begin().key(), "b");
}

TEST(ParseJson, ShowsNoEscapeOfAFileOnATerminal) {
  const std::string message = error_of_json("{\"a\x1b[31m\": 1}");
  EXPECT_THAT(message, HasSubstr("manifest 'm' is damaged"));
  EXPECT_THAT(message, Not(HasSubstr("\x1b")));
}

TEST(ReadJson, NamesFilesThatAreTooLargeOrNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<Error>([&] { read_json(folder / "none", "config 'c'", 10); }),
            "config 'c' cannot be read: No such file or directory.");
  EXPECT_THAT(message_of<Error>([&] { read_json(folder.write("f", "{\"a\": 10000}"), "config 'c'", 10); }),
              HasSubstr("config 'c' has 12 bytes, expected at most 10"));
}

TEST(WholeNumber, IsTakenInItsRangeAlone) {
  const auto of = [](const std::string& value) {
    return message_of<Error>([&] { whole_number(parse_json("{\"step\": " + value + "}", "m"), "step", "m", 0, 100); });
  };
  EXPECT_EQ(of("0"), "no error");
  EXPECT_EQ(of("100"), "no error");
  for (const std::string value :
       {"-1", "101", "1.5", "1e1", "1.0", "\"5\"", "true", "null", "[5]", "9223372036854775807", "9223372036854775808",
        "18446744073709551615", "-9223372036854775808", "-9223372036854775809", "1e400", "340282366920938463463374"}) {
    EXPECT_THAT(of(value), AllOf(HasSubstr("m is damaged"), Not(HasSubstr("no error")))) << value;
  }
  EXPECT_THAT(message_of<Error>([] { whole_number(parse_json("{}", "m"), "step", "m", 0, 1); }),
              HasSubstr("found nothing for 'step', expected a whole number from 0 to 1"));
  EXPECT_THAT(message_of<Error>([] { whole_number(parse_json("[]", "m"), "step", "m", 0, 1); }),
              HasSubstr("found nothing for 'step'"));
}

}  // namespace
}  // namespace fsdp::files
