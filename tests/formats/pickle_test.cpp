// A pickle builds values and nothing else; what would run something, or is damaged, is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "formats/pickle_reader.h"
#include "formats/pickle_writer.h"
#include "fsdp/error.h"
#include "support/message_of.h"

namespace fsdp::formats {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = Pickle::Kind;
using namespace std::string_literals;

bool is_allowed(std::string_view global) { return global == "torch.Size" || global == "collections.OrderedDict"; }

Pickle read(std::string bytes) { return Pickle::read(std::move(bytes), "x.pt", is_allowed); }
std::string refusal(const std::string& bytes) {
  return message_of<Error>([&] { read(bytes); });
}

TEST(PickleReader, BuildsWhatTheWriterWrites) {
  PickleWriter out;
  out.empty_dict();
  out.text("numbers");
  out.numbers(std::vector<int64_t>{0, 255, 256, -1, 1 << 20, -(int64_t{1} << 40), INT64_MAX, INT64_MIN});
  out.set_item();
  out.text("truth");
  out.boolean(true);
  out.set_item();
  out.text("nothing");
  out.none();
  out.set_item();
  out.text("size");
  out.global("torch", "Size");
  out.mark();
  out.numbers(std::vector<int64_t>{2, 3});
  out.tuple();
  out.call();
  out.set_item();
  const Pickle pickle = read(out.finish());
  const auto& numbers = pickle.at(*pickle.find(pickle.root(), "numbers"));
  std::vector<int64_t> found;
  for (const auto id : numbers.items) found.push_back(pickle.at(id).number);
  EXPECT_EQ(found, (std::vector<int64_t>{0, 255, 256, -1, 1 << 20, -(int64_t{1} << 40), INT64_MAX, INT64_MIN}));
  EXPECT_EQ(pickle.at(*pickle.find(pickle.root(), "truth")).number, 1);
  EXPECT_EQ(pickle.at(*pickle.find(pickle.root(), "nothing")).kind, Kind::None);
  const auto& size = pickle.at(*pickle.find(pickle.root(), "size"));
  EXPECT_EQ(pickle.called(size), "torch.Size");
  EXPECT_EQ(pickle.at(pickle.arguments(size)[0]).items.size(), 2u);
  EXPECT_FALSE(pickle.find(pickle.root(), "other"));
}

// pickle.dumps({"a": [1.5, b"x", "\u00e9"]}, 4), with its memo and frame.
TEST(PickleReader, ReadsProtocolFour) {
  const std::string bytes =
      "\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01"
      "a\x94]\x94(G?\xf8\x00\x00\x00\x00\x00\x00"
      "C\x01x\x94\x8c\x02\xc3\xa9\x94"
      "es."s;
  const Pickle pickle = read(bytes);
  const auto& list = pickle.at(*pickle.find(pickle.root(), "a"));
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_EQ(pickle.at(list.items[0]).real, 1.5);
  EXPECT_EQ(pickle.at(list.items[1]).text, "x");
  EXPECT_EQ(pickle.at(list.items[2]).text, "\u00e9");
}

TEST(PickleReader, RunsNothingThatAPickleAsksFor) {
  EXPECT_THAT(refusal("\x80\x02"
                      "cposix\nsystem\nX\x02\0\0\0ls\x85R."s),
              AllOf(HasSubstr("x.pt"), HasSubstr("posix.system"), HasSubstr("fsdp-convert runs no code of files")));
  EXPECT_THAT(refusal("\x80\x04\x8c\x08"
                      "builtins\x8c\x04"
                      "eval\x93."),
              HasSubstr("builtins.eval"));
  EXPECT_THAT(refusal("cos\n\x1b[2J\n."), HasSubstr("os.\\x1b[2J"));
  EXPECT_THAT(refusal("(S'ls'\nios\nsystem\n."), HasSubstr("instruction 0x53"));  // INST and STRING
}

TEST(PickleReader, CallsStayValues) {
  const Pickle pickle = read("ctorch\nSize\nK\x02\x85\x85R}X\x01\0\0\0aK\x01sb."s);
  EXPECT_EQ(pickle.called(pickle.root()), "torch.Size");
  ASSERT_EQ(pickle.root().items.size(), 3u);  // the attributes that were set on it
  EXPECT_TRUE(pickle.find(pickle.at(pickle.root().items[2]), "a"));
  EXPECT_EQ(read("ccollections\nOrderedDict\n)RX\x01\0\0\0aK\x01s}b."s).root().items.size(), 2u);
}

TEST(PickleReader, RefusesWhatIsDamaged) {
  const std::vector<std::string> damaged = {"",
                                            ".",                   // nothing on the stack
                                            "K",                   // ends too early
                                            "K\x01",               // no stop
                                            "K\x01K\x02.",         // two values
                                            "(K\x01.",             // a mark is left
                                            "K\x01t.",             // a mark is missing
                                            "K\x01\x86.",          // a pair of one
                                            "(K\x01(K\x02\x86t.",  // a pair over a mark
                                            "K\x01K\x02s.",        // an item of no dict
                                            "](K\x01u.",           // items of a list
                                            "}(K\x01u.",           // a key without a value
                                            "}K\x01"
                                            "a.",                       // an item of no list
                                            "K\x01K\x02R.",             // a call of a number
                                            "ctorch\nSize\nK\x02R.",    // arguments that are no tuple
                                            "K\x01}b.",                 // attributes of a number
                                            "h\x05.",                   // not in the memo
                                            "K\x01r\xff\xff\xff\x7f.",  // far out in the memo
                                            "X\xff\xff\xff\xff.",       // a text of 4 GiB
                                            "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
                                            "\x8a\x09\1\1\1\1\1\1\1\1\1.",  // 72 bits
                                            "\x95\xff\0\0\0\0\0\0\0K\1."s,  // a frame beyond the end
                                            "\x80\x06K\x01.",               // protocol 6
                                            "ctorch",                       // a name without an end
                                            "\xff."};
  for (const std::string& bytes : damaged) {
    EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("x.pt"), HasSubstr("damaged"))) << ::testing::PrintToString(bytes);
  }
}

TEST(PickleReader, AContainerMayHoldItself) {
  const Pickle pickle = read(
      "]q\x01h\x01"
      "a.");
  EXPECT_EQ(pickle.root().items, std::vector<Pickle::Id>{pickle.root_id()});
}

TEST(PickleReader, NestingOfAnyDepthUsesNoStack) {
  std::string deep(1'000'000, '\x85');
  EXPECT_EQ(read("K\x01" + deep + ".").root().kind, Kind::Tuple);
}

// Of random bytes, and of random changes to a whole pickle: an answer or an error, and never anything else.
TEST(PickleReader, SurvivesRandomBytes) {
  PickleWriter out;
  out.empty_dict();
  for (int i = 0; i < 20; ++i) {
    out.text("key " + std::to_string(i));
    out.global("torch", "Size");
    out.mark();
    out.numbers(std::vector<int64_t>{i, 1000 * i});
    out.tuple();
    out.call();
    out.set_item();
  }
  const std::string whole = out.finish();
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    const size_t changes = 1 + random() % 8;
    for (size_t k = 0; k < changes; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += refusal(bytes) != "no error";
  }
  EXPECT_GT(refused, 5'000);
}

}  // namespace
}  // namespace fsdp::formats
