// Lists of parameters: texts, safetensors and checkpoints.
#include "models/parameter_list.h"

#include <gmock/gmock.h>

#include <cstring>

#include "fsdp/error.h"
#include "support/sealed_manifest.h"
#include "support/temporary_folder.h"

namespace models {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ParameterList list_in(const std::string& text) { return parse_parameter_list(text, "list"); }

std::string problem_of(const std::string& text) {
  try {
    list_in(text);
  } catch (const fsdp::Error& error) {
    return error.what();
  }
  return "";
}

std::string header_file(const std::string& header) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
}

TEST(ParameterLists, TakeTheFormsThatPythonAndCppPrint) {
  const ParameterList list = list_in(
      "# made by hand\n"
      "\n"
      "a.weight [2, 3] torch.bfloat16\r\n"  // Python: list(p.shape)
      "b.weight torch.Size([4, 5])\n"       // Python: p.shape
      "c.weight (6,) torch.float32\n"       // Python: tuple(p.shape)
      "d.weight [7, 8] c10::BFloat16\n"     // C++: sizes() and dtype()
      "e.weight\t9x10  F32  # by hand\n"
      "f.weight: 11\n"
      "scale [] float\n"
      "none () double\n"
      "empty [0, 5]");
  std::vector<std::pair<std::string, int64_t>> found;
  for (const ListedParameter& parameter : list.parameters) found.emplace_back(parameter.name, parameter.numel());
  EXPECT_THAT(found, ElementsAre(std::pair("a.weight", 6), std::pair("b.weight", 20), std::pair("c.weight", 6),
                                 std::pair("d.weight", 56), std::pair("e.weight", 90), std::pair("f.weight", 11),
                                 std::pair("scale", 1), std::pair("none", 1), std::pair("empty", 0)));
  EXPECT_EQ(list.numel(), 191);
}

TEST(ParameterLists, CountStoragesOnceAndLeaveBuffersOut) {
  const ParameterList list = list_in(
      "embed.weight [10, 4]\n"
      "head.weight = embed.weight\n"
      "norm.running_mean [4] fp32 buffer\n"
      "steps [] int64\n");
  EXPECT_EQ(list.numel(), 40);
  EXPECT_EQ(list.tied, 1);
  EXPECT_EQ(list.buffers, 2);
}

struct WrongLine {
  const char* text;
  const char* found;
};

TEST(ParameterLists, SayWhereAndWhatIsWrong) {
  constexpr WrongLine kWrong[] = {
      {"a", "list, line 1: found the shape '' of 'a', expected sizes"},
      {"\n# x\na [2, -3]", "list, line 3: found the shape '[2, -3]' of 'a'"},
      {"a [2, 3", "found the shape '[2, 3' of 'a'"},
      {"a [2 3]", "found the shape '[2 3]' of 'a'"},
      {"a [nan]", "found the shape '[nan]' of 'a'"},
      {"a [1e3]", "found the shape '[1e3]' of 'a'"},
      {"a 2x", "found the shape '2x' of 'a'"},
      {"a torch.Size([2]", "found the shape 'torch.Size([2]' of 'a'"},
      {"a [99999999999999999999]", "found the shape '[99999999999999999999]' of 'a'"},
      {"a [2] fp31", "found 'fp31' behind the shape of 'a', expected a dtype"},
      {"a [2]\nb [3]\na [4]", "list, line 3: 'a' is on line 1 already. Give each name once."},
      {"b = a\na [4]", "found = 'a', expected the name of a parameter on a line before"},
      {"a = a", "found = 'a', expected"},
      {"", "found 0 parameters without elements, expected at least 1 element"},
      {"a [0]", "found 1 parameters without elements"},
      {"a [] int64", "found 0 parameters without elements"},
      {"a [1000000000, 1000000000]", "found more than 2^53 elements up to the parameter 'a'"},
      {"a [4611686018427387904, 4]", "found more than 2^53 elements up to the parameter 'a'"},
      {"a [9007199254740992]\nb 1", "found more than 2^53 elements up to the parameter 'b'"}};
  for (const WrongLine& wrong : kWrong) EXPECT_THAT(problem_of(wrong.text), HasSubstr(wrong.found)) << wrong.text;
  EXPECT_THAT(problem_of("\x1b[2J [x]"), HasSubstr("of '\\x1b[2J'"));
}

TEST(ParameterLists, NameManyWrongLinesAndNotAll) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a" + std::to_string(i) + "\n";
  const std::string problem = problem_of(text);
  EXPECT_THAT(problem, AllOf(HasSubstr("line 20"), HasSubstr("list: and other lines.")));
  EXPECT_LT(problem.size(), 4000u);
}

TEST(SafetensorsLists, AreInTheOrderOfTheBytesWithoutBuffers) {
  const ParameterList list = parse_safetensors_header(
      R"({"__metadata__": {"format": "pt"},
          "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [2, 26]},
          "b": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]},
          "n.running_mean": {"dtype": "F32", "shape": [3], "data_offsets": [26, 38]},
          "ids": {"dtype": "I64", "shape": [1], "data_offsets": [38, 46]}})",
      "header");
  EXPECT_THAT(list.parameters,
              ElementsAre(testing::Field(&ListedParameter::name, "b"), testing::Field(&ListedParameter::name, "a")));
  EXPECT_EQ(list.numel(), 7);
  EXPECT_EQ(list.buffers, 2);
}

TEST(SafetensorsLists, RefuseDamage) {
  const auto problem = [](const std::string& header) -> std::string {
    try {
      parse_safetensors_header(header, "header");
    } catch (const fsdp::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(problem("[1]"), HasSubstr("found [1], expected a JSON object"));
  EXPECT_THAT(problem(R"({"a": 3})"), HasSubstr("found 3 for 'a'"));
  EXPECT_THAT(problem(R"({"a": {"shape": [1]}})"), HasSubstr("found the dtype nothing of 'a'"));
  EXPECT_THAT(problem(R"({"a": {"dtype": "F32"}})"), HasSubstr("found the shape nothing of 'a'"));
  for (const char* shape : {"[-1]", "[1.5]", "[true]", "3", "[9223372036854775807]", "[[1]]"})
    EXPECT_THAT(problem(std::string(R"({"a": {"dtype": "F32", "shape": )") + shape + "}}"),
                HasSubstr("expected a list of whole numbers"))
        << shape;
  EXPECT_THAT(problem(R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4]}})"), HasSubstr("2^53"));
  EXPECT_THAT(problem("{}"), HasSubstr("expected at least 1 element"));
}

TEST(SafetensorsLists, AreReadFromFilesAndIndexes) {
  const TemporaryFolder folder;
  folder.write("one.safetensors", header_file(R"({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}})"));
  folder.write("two.safetensors", header_file(R"({"b": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})"));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  EXPECT_EQ(read_parameter_list(folder.path() / "one.safetensors").numel(), 6);
  EXPECT_EQ(list_of_parameters(folder.path()), folder.path() / "model.safetensors.index.json");
  EXPECT_EQ(read_parameter_list(folder.path() / "model.safetensors.index.json").numel(), 10);
  for (const char* file : {"../one.safetensors", "", "/etc/passwd", ".."}) {
    folder.write("bad.index.json", std::string(R"({"weight_map": {"a": ")") + file + "\"}}");
    EXPECT_THROW(read_parameter_list(folder.path() / "bad.index.json"), fsdp::Error) << file;
  }
  folder.write("cut.safetensors", std::string(4, '\0'));
  EXPECT_THROW(read_parameter_list(folder.path() / "cut.safetensors"), fsdp::Error);
  folder.write("long.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_THROW(read_parameter_list(folder.path() / "long.safetensors"), fsdp::Error);
}

// A checkpoint of one file, as docs/checkpoint_format.md has it.
std::string manifest_with(const std::string& shape, const std::string& strides, const std::string& numel) {
  const std::string zeros(fsdp::files::kHashDigits, '0');
  return sealed_manifest("{\n  \"hash\": \"" + zeros +
                         R"(", "format": "fsdp-checkpoint", "version": 4, "world_size": 1, "shards": 1, "step": 7,
    "notes": {}, "files": [{"name": "shard-00001-of-00001.safetensors", "bytes": 100, "hash": ")" +
                         zeros + R"("}], "parameters": [{"name": "w", "shape": )" + shape + R"(, "strides": )" +
                         strides +
                         R"(, "tensors": {"model": "F32"}, "scalars": {},
    "parts": [{"file": 0, "offset": 0, "begin": 0, "numel": )" +
                         numel + R"(}]}], "buffers": [{"name": "mean", "shape": [4], "dtype": "F32", "file": 0}]})");
}

TEST(CheckpointLists, AreReadFromTheManifestAlone) {
  const TemporaryFolder folder;
  folder.write("manifest.json", manifest_with("[3, 4]", "[4, 1]", "12"));
  const ParameterList list = read_parameter_list(list_of_parameters(folder.path()).value());
  EXPECT_EQ(list.numel(), 12);
  EXPECT_EQ(list.buffers, 1);
}

TEST(CheckpointLists, RefuseADamagedManifest) {
  const TemporaryFolder folder;
  std::string text = manifest_with("[3, 4]", "[4, 1]", "12");
  text.replace(text.find("[3, 4]"), 6, "[3, 5]");
  folder.write("manifest.json", text);
  EXPECT_THROW(read_parameter_list(folder.path() / "manifest.json"), fsdp::Error);
  folder.write("manifest.json", "{}");
  EXPECT_THROW(read_parameter_list(folder.path() / "manifest.json"), fsdp::Error);
}

TEST(ParameterLists, AreKnownByTheirNamesAndTheirFirstCharacter) {
  const TemporaryFolder folder;
  EXPECT_EQ(list_of_parameters(folder.path()), std::nullopt);
  EXPECT_EQ(list_of_parameters(folder.path() / "nothing.txt"), std::nullopt);
  folder.write("list.txt", "a [2]\n");
  EXPECT_EQ(list_of_parameters(folder.path() / "list.txt"), folder.path() / "list.txt");
  folder.write("model.toml", "width = 3\n");
  EXPECT_EQ(list_of_parameters(folder.path() / "model.toml"), std::nullopt);
  folder.write("shape", "  {\"model_type\": \"gpt2\"}");
  EXPECT_EQ(list_of_parameters(folder.path() / "shape"), std::nullopt);
  folder.write("model.safetensors", header_file("{}"));
  folder.write("config.json", "{}");
  EXPECT_EQ(list_of_parameters(folder.path()), std::nullopt);  // its shape says more
  folder.write("manifest.json", "{}");
  EXPECT_EQ(list_of_parameters(folder.path()), folder.path() / "manifest.json");
}

}  // namespace
}  // namespace models
