// A store that others can reach, and what they can do there.
#include "world/guarded_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "fsdp/error.h"
#include "support/message_of.h"
#include "world/keyed_hash.h"

namespace fsdp::world {
namespace {

using ::fsdp::testing::message_of;
using ::testing::HasSubstr;

// The only entry there is.
std::string only_name(c10d::Store& store) {
  const std::vector<std::string> names = store.listKeys();
  EXPECT_EQ(names.size(), 1);
  return names.empty() ? "" : names.front();
}

class Guarded : public ::testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Store> open_ = c10::make_intrusive<c10d::HashStore>();
  GuardedStore store_{open_, "secret"};
};

// echo -en 'purpose\0text' | openssl dgst -sha256 -hmac key
TEST(KeyedHash, IsHmacSha256) {
  EXPECT_EQ(in_hexadecimal(keyed_hash("key", "purpose", "text")),
            "35058abb5ec62506d5ffe528a5a859dbf9ee82f943a6184326e282be9d0abcce");
  EXPECT_EQ(keyed_hash("", "purpose", "").size(), kHashBytes);
  EXPECT_TRUE(are_equal("ab", "ab"));
  EXPECT_FALSE(are_equal("ab", "ac"));
  EXPECT_FALSE(are_equal("ab", "abc"));
}

TEST_F(Guarded, GivesBackWhatWasSet) {
  store_.set("a", "one");
  store_.set("b", "");
  EXPECT_EQ(store_.get_to_str("a"), "one");
  EXPECT_EQ(store_.get_to_str("b"), "");
  store_.set("a", "two");
  EXPECT_EQ(GuardedStore(open_, "secret").get_to_str("a"), "two");
  EXPECT_TRUE(store_.check({"a", "b"}));
  EXPECT_FALSE(store_.check({"a", "c"}));
  store_.wait({"a", "b"});
  EXPECT_TRUE(store_.deleteKey("a"));
  EXPECT_FALSE(store_.check({"a"}));
}

TEST_F(Guarded, SetsWhatIsThereOnlyAsExpected) {
  EXPECT_EQ(store_.compareSet("a", std::string(), std::string("one")), "one");
  EXPECT_EQ(store_.compareSet("a", std::string(), std::string("two")), "one");
  EXPECT_EQ(store_.compareSet("a", std::string("one"), std::string("two")), "two");
  EXPECT_EQ(store_.get_to_str("a"), "two");
}

TEST_F(Guarded, CountsForThisJobAlone) {
  EXPECT_EQ(store_.add("ended", 1), 1);
  EXPECT_EQ(store_.add("ended", 2), 3);
  EXPECT_EQ(GuardedStore(open_, "another").add("ended", 1), 1);
}

TEST_F(Guarded, ServesGroupsUnderPrefixes) {
  auto guarded = c10::make_intrusive<GuardedStore>(open_, "secret");
  c10d::PrefixStore group("world", guarded);
  group.set("a", "one");
  EXPECT_EQ(guarded->get_to_str("world/a"), "one");
  EXPECT_EQ(group.clone()->get_to_str("a"), "one");
  EXPECT_FALSE(group.hasExtendedApi());
}

TEST_F(Guarded, ShowsNobodyItsNamesAndMeetsNoOtherJobs) {
  store_.set("world/a", "one");
  EXPECT_THAT(only_name(*open_), ::testing::Not(HasSubstr("world")));
  GuardedStore other(open_, "another secret");
  EXPECT_FALSE(other.check({"world/a"}));
  other.set("world/a", "two");
  EXPECT_EQ(store_.get_to_str("world/a"), "one");
}

TEST_F(Guarded, RefusesWhatSomebodyElseWrote) {
  store_.set("a", "one");
  const std::string name = only_name(*open_), written = open_->get_to_str(name);
  for (const std::string& forged : {std::string(), std::string("one"), written.substr(1), written + "x",
                                    written.substr(0, written.size() - 1), std::string(written.size(), '\0')}) {
    open_->set(name, forged);
    EXPECT_THAT(message_of<Error>([&] { store_.get_to_str("a"); }),
                HasSubstr("the job's store has a value for 'a' that no rank of this job wrote"))
        << forged.size();
  }
  open_->set(name, written);
  EXPECT_EQ(store_.get_to_str("a"), "one");
}

TEST_F(Guarded, RefusesAValueThatWasMovedFromAnotherName) {
  store_.set("a", "one");
  const std::string name = only_name(*open_), written = open_->get_to_str(name);
  open_->deleteKey(name);
  store_.set("b", "two");
  open_->set(only_name(*open_), written);
  EXPECT_THAT(message_of<Error>([&] { store_.get_to_str("b"); }), HasSubstr("no rank of this job wrote"));
}

}  // namespace
}  // namespace fsdp::world
