// Tensors are written as the format says, and read back bit for bit.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "checkpoint/safetensors_files.h"

namespace fsdp::checkpoint::safetensors_files {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Safetensors, EveryDtypeComesBackBitForBit) {
  NamedTensors tensors;
  for (auto type : {torch::kBool, torch::kUInt8, torch::kInt8, torch::kInt16, torch::kInt32, torch::kInt64,
                    torch::kFloat16, torch::kBFloat16, torch::kFloat32, torch::kFloat64}) {
    tensors.emplace_back(toString(type), torch::arange(-2, 4).to(type).reshape({2, 3}));
  }
  expect_round_trip(tensors);
}

TEST_F(Safetensors, ValuesThatEqualNothingComeBackBitForBit) {
  const auto words = torch::tensor({0x7fc00001, 0x7f800001, 0x7f800000, 1}, torch::kInt32);  // NaNs, inf, subnormal
  expect_round_trip({{"words", words.view(torch::kFloat32)}, {"zeros", torch::tensor({0.0, -0.0})}});
}

TEST_F(Safetensors, ScalarsAndEmptyTensorsComeBackWithTheirShapes) {
  expect_round_trip({{"scalar", torch::tensor(7.5)},
                     {"empty", torch::empty({0})},
                     {"wide", torch::empty({2, 0, 3}, torch::kInt8)},
                     {"flag", torch::tensor(true)},
                     {"wide again", torch::empty({0, 5}, torch::kFloat64)}});
  expect_round_trip({{"only", torch::empty({0, 4})}});
  expect_round_trip({});
}

TEST_F(Safetensors, ATensorIsWrittenAsItReadsWhateverItsStrides) {
  const auto tensor = torch::arange(24).to(torch::kFloat32).reshape({4, 6});
  expect_round_trip({{"transposed", tensor.t()},
                     {"sliced", tensor.slice(1, 1, 5, 2)},
                     {"expanded", tensor[0].expand({3, 6})},
                     {"trained", tensor.clone().set_requires_grad(true)}});
}

TEST_F(Safetensors, NamesMayHoldAnyText) {
  expect_round_trip({{"blocks.0.weight", torch::ones({1})},
                     {"größe", torch::ones({2})},
                     {"a \"quoted\\\n name", torch::ones({3})},
                     {"", torch::ones({4})}});
}

TEST_F(Safetensors, AFileHasTheBytesThatTheFormatAsksFor) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  ASSERT_EQ(header.size(), 53u);
  EXPECT_EQ(bytes_of({{"a", torch::tensor({1, 2, 3}, torch::kUInt8)}}), file_with(header + "   ", "\x01\x02\x03"));
}

TEST_F(Safetensors, AFileOfAnotherWriterIsRead) {
  const auto file =
      store(file_with(R"({ "b" : {"data_offsets":[4,6], "dtype":"I16", "shape":[]},  "__metadata__":{"format":"pt"},)"
                      R"("a":{"shape":[1],"data_offsets":[0,4],"dtype":"I32"} })",
                      std::string("\x05\0\0\0\x07\0", 6)));
  const auto tensors = read_safetensors(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_TRUE(same_bits(torch::tensor({5}, torch::kInt32), tensors.at("a")));
  EXPECT_TRUE(same_bits(torch::tensor(7, torch::kInt16), tensors.at("b")));
}

TEST_F(Safetensors, MetadataIsInTheHeaderAndNotAmongTheTensors) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"note", "ä \"b\""}};
  const std::string bytes = bytes_of({{"a", torch::ones({2})}}, metadata);
  EXPECT_EQ((header_of(bytes)["__metadata__"].get<std::map<std::string, std::string>>()), metadata);
  const auto tensors = read_safetensors(store(bytes));
  EXPECT_EQ(tensors.size(), 1u);
  EXPECT_TRUE(tensors.contains("a"));
  EXPECT_FALSE(header_of(bytes_of({{"a", torch::ones({2})}})).contains("__metadata__"));
}

TEST_F(Safetensors, HeadersEndAtEightBytesAndTensorsStartAtTheirElementSize) {
  for (int extra = 0; extra < 9; ++extra) {
    const std::string bytes = bytes_of({{"bytes" + std::string(extra, 'x'), torch::ones({3}, torch::kUInt8)},
                                        {"half", torch::ones({5}, torch::kFloat16)},
                                        {"wide", torch::ones({1}, torch::kFloat64)},
                                        {"flags", torch::ones({5}, torch::kBool)},
                                        {"single", torch::ones({7}, torch::kFloat32)},
                                        {"long", torch::ones({3}, torch::kInt64)}});
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    EXPECT_EQ(length % 8, 0u);
    const std::map<std::string, int64_t> sizes = {{"U8", 1},   {"F16", 2}, {"F64", 8},
                                                  {"BOOL", 1}, {"F32", 4}, {"I64", 8}};
    const nlohmann::json header = header_of(bytes);
    for (const auto& [name, entry] : header.items()) {
      EXPECT_EQ(entry["data_offsets"][0].get<int64_t>() % sizes.at(entry["dtype"].get<std::string>()), 0) << name;
    }
  }
}

TEST_F(Safetensors, WhatCannotBeWrittenIsAnErrorThatNamesIt) {
  auto write = [&](const std::filesystem::path& file, const NamedTensors& tensors) -> std::string {
    try {
      write_safetensors(file, tensors, {});
    } catch (const Error& error) {
      return error.what();
    } catch (const std::exception& error) {
      return foreign(error);
    }
    return "no error";
  };
  const auto nowhere = path("none") / "file.safetensors";
  EXPECT_THAT(write(nowhere, {}), AllOf(HasSubstr(nowhere.string()), HasSubstr("No such file")));
  const auto taken = store("taken");
  EXPECT_THAT(write(taken, {}), AllOf(HasSubstr(taken.string()), HasSubstr("exists")));
  EXPECT_THAT(write(path("complex"), {{"a", torch::ones({1}, torch::kComplexFloat)}}),
              HasSubstr("no dtype for ComplexFloat"));
  EXPECT_FALSE(std::filesystem::exists(path("complex")));
}

TEST_F(Safetensors, ANameThatIsNotUtf8IsAnErrorOfTheWriter) {
  EXPECT_THROW(write_safetensors(path("name"), {{"a\xff", torch::ones({1})}}, {}), Error);
}

TEST_F(Safetensors, TwoTensorsOfOneNameAreAnErrorOfTheWriter) {
  EXPECT_THROW(write_safetensors(path("twice"), {{"a", torch::ones({1})}, {"a", torch::ones({2})}}, {}), Error);
}

}  // namespace
}  // namespace fsdp::checkpoint::safetensors_files
