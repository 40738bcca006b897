// An index leads to the files beside it and nowhere else; one that is damaged is an error that says how.
#include "checkpoint/pretrained_files.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/scratch_directory.h"

namespace fsdp::checkpoint {
namespace {

using fsdp::testing::message_of;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PretrainedIndex : public ::testing::Test {
 protected:
  PretrainedIndex() {
    write_safetensors(path("one.safetensors"), {{"a", torch::ones({2})}, {"b", torch::ones({3})}}, {});
    write_safetensors(path("two.safetensors"), {{"c", torch::ones({4})}}, {});
  }

  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

  void write_index(const std::string& text) const { std::ofstream(path(kIndexName), std::ios::binary) << text; }

  // The message that refuses an index with this weight_map; it names the index.
  std::string refusal(const json& weight_map) const {
    write_index(json{{"metadata", json::object()}, {"weight_map", weight_map}}.dump());
    const std::string message = message_of<Error>([&] { PretrainedFiles files(directory_.path()); });
    EXPECT_THAT(message, HasSubstr(path(kIndexName).string()));
    return message;
  }

  void expect_damaged(const std::string& text) const {
    write_index(text);
    EXPECT_THAT(message_of<Error>([&] { PretrainedFiles files(directory_.path()); }),
                AllOf(HasSubstr(path(kIndexName).string()), HasSubstr("is damaged")))
        << text;
  }

 private:
  fsdp::testing::ScratchDirectory directory_;
};

const json kWhole = {{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}};

json with(const std::string& tensor, const std::string& file) {
  json map = kWhole;
  map[tensor] = file;
  return map;
}

TEST_F(PretrainedIndex, LeadsToEveryTensor) {
  write_index(json{{"weight_map", kWhole}}.dump());
  for (const auto& from : {path(""), path(kIndexName)}) {
    PretrainedFiles files(from);
    ASSERT_EQ(files.tensors().size(), 3u);
    const auto& [file, entry] = files.tensors().at("c");
    EXPECT_TRUE(torch::equal(file->read(*entry), torch::ones({4})));
  }
}

TEST_F(PretrainedIndex, IsNotReadBesideAWholeFile) {
  write_index("not an index");
  write_safetensors(path(kModelName), {{"whole", torch::ones({1})}}, {});
  EXPECT_TRUE(PretrainedFiles(path("")).tensors().contains("whole"));
}

TEST_F(PretrainedIndex, MayNotLeadElsewhere) {
  std::filesystem::create_directories(path("folder"));
  write_safetensors(path("folder/x.safetensors"), {{"c", torch::ones({4})}}, {});
  const std::string outside = path("folder/x.safetensors").string();
  for (const std::string& name :
       {outside, std::string("folder/x.safetensors"), std::string("../x.safetensors"), std::string("/etc/passwd"),
        std::string(".."), std::string("."), std::string(""), std::string("folder\\x.safetensors"),
        std::string("two.safetensors\0", 16), std::string("two.safetensors\0.safetensors", 28),
        std::string("two.safetensors\n"), std::string(kIndexName)}) {
    EXPECT_THAT(refusal(with("c", name)), HasSubstr("expected the bare name of a .safetensors file")) << name;
  }
}

TEST_F(PretrainedIndex, NamesAllFilesThatAreMissingOrElsewhere) {
  json map = with("c", "../x.safetensors");
  map["b"] = "none.safetensors";
  EXPECT_THAT(refusal(map),
              AllOf(HasSubstr(R"("../x.safetensors")"), HasSubstr(R"("none.safetensors", which is missing)")));
  EXPECT_THAT(refusal(with("c", ".safetensors")), HasSubstr(R"(".safetensors", which is missing)"));
}

TEST_F(PretrainedIndex, HasToAgreeWithTheFiles) {
  EXPECT_THAT(refusal(with("d", "two.safetensors")), HasSubstr("tensor d is missing in two.safetensors"));
  EXPECT_THAT(refusal(with("a", "two.safetensors")),
              HasSubstr("tensor a lies in one.safetensors, expected it in two.safetensors"));
  json map = kWhole;
  map.erase("b");
  EXPECT_THAT(refusal(map), HasSubstr("tensor b lies in one.safetensors, expected it in no file"));
}

TEST_F(PretrainedIndex, MayNotLeadToATensorTwice) {
  write_safetensors(path("again.safetensors"), {{"a", torch::ones({2})}}, {});
  write_index(json{{"weight_map", with("a", "again.safetensors")}}.dump());
  EXPECT_THAT(message_of<Error>([&] { PretrainedFiles files(path("")); }), HasSubstr("tensor a lies in another file"));
}

TEST_F(PretrainedIndex, ThatIsNoneIsDamaged) {
  for (const char* text : {"", "{", "[]", "null", "7", "{}", R"({"weight_map":[]})", R"({"weight_map":["a"]})",
                           R"({"weight_map":7})", R"({"weight_map":{"a":7}})", R"({"weight_map":{"a":null}})",
                           R"({"weight_map":{}} more)", "{\"weight_map\":{\"\xff\":\"one.safetensors\"}}"}) {
    expect_damaged(text);
  }
}

TEST_F(PretrainedIndex, AFileOfItThatIsDamagedIsNamed) {
  write_index(json{{"weight_map", kWhole}}.dump());
  std::filesystem::resize_file(path("two.safetensors"), 12);
  EXPECT_THAT(message_of<Error>([&] { PretrainedFiles files(path("")); }), HasSubstr(path("two.safetensors").string()));
}

TEST_F(PretrainedIndex, NothingToReadIsAnErrorThatSaysWhatIsRead) {
  EXPECT_THAT(message_of<Error>([&] { PretrainedFiles files(path("")); }),
              AllOf(HasSubstr(path("").string()), HasSubstr("found neither"), HasSubstr(kModelName)));
  for (const char* name : {"none", "none.json", "none.safetensors"}) {
    EXPECT_THAT(message_of<Error>([&] { PretrainedFiles files(path(name)); }),
                AllOf(HasSubstr(path(name).string()), HasSubstr("found nothing")));
  }
}

}  // namespace
}  // namespace fsdp::checkpoint
