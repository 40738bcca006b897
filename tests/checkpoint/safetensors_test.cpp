// Tensors are read back bit for bit; a damaged file is an error that names it, whatever the damage.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "fsdp/error.h"
#include "support/scratch_directory.h"

namespace fsdp::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kLengthBytes = 8;

std::string little_endian(uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &value, kLengthBytes);
  return bytes;
}

std::string file_with(const std::string& header, const std::string& data = "") {
  return little_endian(header.size()) + header + data;
}

// A file with one tensor, "a", and as many bytes as [2] of F32 needs.
std::string file_with_tensor(const std::string& fields) { return file_with("{\"a\":{" + fields + "}}", "12345678"); }

std::string file_with_shape(const std::string& shape) {
  return file_with_tensor(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,8])");
}

std::string file_with_offsets(const std::string& offsets) {
  return file_with_tensor(R"("dtype":"F32","shape":[2],"data_offsets":)" + offsets);
}

// Tensors of U8, "a", "b" and so on, at these offsets.
std::string file_with_bytes(const std::vector<std::pair<int, int>>& offsets, const std::string& data) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [begin, end] : offsets) {
    header[std::string(1, static_cast<char>('a' + header.size()))] = {
        {"dtype", "U8"}, {"shape", {end - begin}}, {"data_offsets", {begin, end}}};
  }
  return file_with(header.dump(), data);
}

nlohmann::json header_of(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return nlohmann::json::parse(bytes.substr(kLengthBytes, length));
}

bool same_bits(const torch::Tensor& expected, const torch::Tensor& found) {
  const torch::Tensor values = expected.detach().contiguous();
  return values.dtype() == found.dtype() && values.sizes() == found.sizes() && found.is_contiguous() &&
         (values.numel() == 0 || std::memcmp(values.const_data_ptr(), found.const_data_ptr(), values.nbytes()) == 0);
}

// A c10::Error has its stack trace behind the first line.
std::string foreign(const std::exception& error) {
  const std::string text = error.what();
  return "not an fsdp::Error: " + text.substr(0, text.find('\n'));
}

// Makes what needs much memory fail, in place of succeeding unseen.
class LittleMemory {
 public:
  LittleMemory() {
    getrlimit(RLIMIT_AS, &before_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit little = before_;
    little.rlim_cur = pages * 4096 + (32u << 20);
    setrlimit(RLIMIT_AS, &little);
  }
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

  std::filesystem::path store(const std::string& bytes) const {
    std::filesystem::remove(path("damaged.safetensors"));  // some file systems sync one that is cut and written again
    std::ofstream(path("damaged.safetensors"), std::ios::binary) << bytes;
    return path("damaged.safetensors");
  }

  std::string load(const std::filesystem::path& file) const {
    try {
      read_safetensors(file);
    } catch (const Error& error) {
      return error.what();
    } catch (const std::exception& error) {
      return foreign(error);
    }
    return "no error";
  }

  // The message that refuses a file of these bytes.
  std::string refusal(const std::string& bytes) const {
    const auto file = store(bytes);
    LittleMemory little;
    return load(file);
  }

  void expect_refused(const std::string& bytes, const std::string& reason) const {
    EXPECT_THAT(refusal(bytes), AllOf(HasSubstr(path("damaged.safetensors").string()), HasSubstr(reason),
                                      Not(HasSubstr("not an fsdp::Error"))))
        << bytes.substr(0, 400);
  }

  std::map<std::string, torch::Tensor> round_trip(const NamedTensors& tensors) const {
    write_safetensors(path("round_trip.safetensors"), tensors, {});
    auto read = read_safetensors(path("round_trip.safetensors"));
    std::filesystem::remove(path("round_trip.safetensors"));
    return read;
  }

  std::string bytes_of(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata = {}) const {
    const auto file = path("written.safetensors");
    write_safetensors(file, tensors, metadata);
    std::ifstream in(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    std::filesystem::remove(file);
    return bytes;
  }

  void expect_round_trip(const NamedTensors& tensors) const {
    const auto read = round_trip(tensors);
    EXPECT_EQ(read.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      ASSERT_TRUE(read.contains(name)) << name;
      EXPECT_TRUE(same_bits(tensor, read.at(name))) << name;
    }
  }

 private:
  fsdp::testing::ScratchDirectory directory_;
};

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

TEST_F(Safetensors, AFileThatCannotBeReadIsAnErrorThatNamesIt) {
  EXPECT_THAT(load(path("none")), AllOf(HasSubstr(path("none").string()), HasSubstr("No such file")));
  EXPECT_THAT(load(path("")), AllOf(HasSubstr(path("").string()), HasSubstr("cannot be read")));  // a directory
}

TEST_F(Safetensors, AFileTooShortForItsHeaderIsAnError) {
  const std::string reason = "cannot hold the header";
  const std::string valid = file_with_bytes({{0, 4}}, "1234");
  expect_refused("", reason);
  expect_refused("\x02", reason);
  expect_refused(valid.substr(0, 7), reason);
  expect_refused(valid.substr(0, 8), reason);
  expect_refused(valid.substr(0, 20), reason);
  expect_refused(little_endian(3) + "{}", reason);
  expect_refused(little_endian(90'000'000) + "{}", reason);
  expect_refused(little_endian(100'000'001) + "{}", reason);
  expect_refused(little_endian(1ull << 63) + "{}", reason);
  expect_refused(little_endian(~0ull) + "{}", reason);
}

TEST_F(Safetensors, AHeaderThatIsNotAJsonObjectIsAnError) {
  expect_refused(file_with(""), "header is damaged");
  expect_refused(file_with("not json"), "header is damaged");
  expect_refused(file_with("{"), "header is damaged");
  expect_refused(file_with("{} {}"), "header is damaged");
  expect_refused(file_with(std::string(100'000, '[')), "header is damaged");
  expect_refused(file_with("[]"), "not a JSON object");
  expect_refused(file_with("null"), "not a JSON object");
  expect_refused(file_with("7"), "not a JSON object");
}

TEST_F(Safetensors, AHeaderThatGoesOnBehindItsObjectIsAnError) {
  expect_refused(file_with("{} x"), "header is damaged");
  expect_refused(file_with(std::string("{}\0", 3)), "header is damaged");
  expect_refused(file_with(std::string("{}\0more", 7)), "header is damaged");
}

TEST_F(Safetensors, AHeaderThatIsNotUtf8IsAnError) {
  const std::string rest = R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  for (const char* name : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80"}) {  // no lead byte, cut, overlong, surrogate
    expect_refused(file_with(std::string("{\"") + name + rest, "1"), "UTF-8");
  }
}

TEST_F(Safetensors, AKeyThatComesTwiceIsAnError) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_refused(file_with("{" + entry + "," + entry + "}", "1"), "names a twice");
  expect_refused(file_with_tensor(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"),
                 "names dtype twice");
  expect_refused(file_with(R"({"__metadata__":{"k":"1","k":"2"}})"), "names k twice");
}

TEST_F(Safetensors, ADtypeThatIsUnknownIsAnError) {
  const std::string rest = R"(,"shape":[2],"data_offsets":[0,8])";
  for (const char* dtype : {"F33", "f32", "", "F32 "}) {
    expect_refused(file_with_tensor("\"dtype\":\"" + std::string(dtype) + "\"" + rest),
                   "tensor a has the unknown dtype '" + std::string(dtype) + "'");
  }
  expect_refused(file_with_tensor(R"("dtype":32)" + rest), "must be string");
}

TEST_F(Safetensors, ASizeThatIsNotAWholeNumberIsAnError) {
  for (const char* shape :
       {"[-2]", "[-2,-1]", "[2.0]", "[1.5]", "[\"2\"]", "[null]", "[[2]]", "[18446744073709551616]"}) {
    expect_refused(file_with_shape(shape), "tensor a has a size of ");
  }
}

TEST_F(Safetensors, AShapeThatIsNotAListIsAnError) {
  expect_refused(file_with_shape("2"), "tensor a");
  expect_refused(file_with_shape("{\"rows\":2}"), "tensor a");
  expect_refused(file_with_tensor(R"("dtype":"F64","shape":null,"data_offsets":[0,8])"), "tensor a");
}

TEST_F(Safetensors, SizesWhoseProductOverflowsAreAnError) {
  expect_refused(file_with_shape("[4294967296,4294967296]"), "tensor a");  // 2^64 elements
  expect_refused(file_with_shape("[4611686018427387904]"), "tensor a");    // 2^64 bytes
  expect_refused(file_with_shape("[4611686018427387905,2]"), "tensor a");  // 2^63 + 2 elements
  expect_refused(file_with_shape("[9223372036854775807,9223372036854775807]"), "tensor a");
}

TEST_F(Safetensors, ASizeBeyondInt64IsAnErrorAndNotANegativeSize) {
  expect_refused(file_with_shape("[9223372036854775808]"), "tensor a");
  expect_refused(file_with_shape("[18446744073709551614,18446744073709551615]"), "tensor a");  // as int64: -2 * -1
  expect_refused(file_with(R"({"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})"),
                 "tensor a");
}

TEST_F(Safetensors, HugeSizesBesideAnEmptyOneAreAnErrorOrHarmless) {
  for (const char* shape : {"[0,4611686018427387904,8]", "[4611686018427387904,0,8]", "[0,9223372036854775807]"}) {
    const std::string found =
        refusal(file_with(R"({"a":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,0]}})"));
    EXPECT_THAT(found, Not(HasSubstr("not an fsdp::Error"))) << shape;
  }
}

TEST_F(Safetensors, OffsetsThatAreNotTwoWholeNumbersAreAnError) {
  for (const char* offsets : {"[]", "[8]", "[0,4,8]", "8", "null", "{\"begin\":0,\"end\":8}"}) {
    expect_refused(file_with_offsets(offsets), "tensor a has data_offsets that are not two numbers");
  }
  for (const char* offsets :
       {"[0,8.0]", "[-8,0]", "[0,null]", "[\"0\",\"8\"]", "[18446744073709551615,8]", "[9223372036854775808,8]"}) {
    expect_refused(file_with_offsets(offsets), "tensor a has a data offset of ");
  }
}

TEST_F(Safetensors, OffsetsThatDisagreeWithTheShapeAreAnError) {
  const std::string reason = "its shape and dtype need ";
  expect_refused(file_with_offsets("[0,7]"), reason);
  expect_refused(file_with_offsets("[4,8]"), reason);
  expect_refused(file_with_offsets("[0,9]"), reason);
  expect_refused(file_with_offsets("[8,0]"), reason);  // reversed
  expect_refused(file_with_shape("[3]"), reason);
  expect_refused(file_with_shape("[]"), reason);
  expect_refused(file_with_shape("[0]"), reason);
}

TEST_F(Safetensors, TensorsThatOverlapOrLeaveAHoleAreAnError) {
  expect_refused(file_with_bytes({{0, 4}, {2, 6}}, "123456"), "tensor b starts at byte 2, expected 4");
  expect_refused(file_with_bytes({{0, 4}, {0, 4}}, "1234"), "starts at byte 0, expected 4");
  expect_refused(file_with_bytes({{0, 4}, {1, 2}}, "1234"), "tensor b starts at byte 1, expected 4");
  expect_refused(file_with_bytes({{0, 4}, {6, 8}}, "12345678"), "tensor b starts at byte 6, expected 4");
  expect_refused(file_with_bytes({{2, 4}}, "1234"), "tensor a starts at byte 2, expected 0");
  expect_refused(file_with_bytes({{0, 4}, {2, 2}}, "1234"), "tensor b starts at byte 2, expected 4");
}

TEST_F(Safetensors, TensorsThatEndBeforeOrAfterTheFileAreAnError) {
  expect_refused(file_with_bytes({{0, 4}}, "123"), "found 3 bytes of tensors, the header announces 4");
  expect_refused(file_with_bytes({{0, 4}}, "12345"), "found 5 bytes of tensors, the header announces 4");
  expect_refused(file_with_bytes({}, "1"), "found 1 bytes of tensors, the header announces 0");
  expect_refused(file_with(R"({"a":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8796093022208]}})", "1"),
                 "the header announces 8796093022208");
}

TEST_F(Safetensors, AFieldThatIsMissingIsAnErrorThatNamesIt) {
  expect_refused(file_with_tensor(R"("shape":[2],"data_offsets":[0,8])"), "dtype");
  expect_refused(file_with_tensor(R"("dtype":"F32","data_offsets":[0,8])"), "shape");
  expect_refused(file_with_tensor(R"("dtype":"F32","shape":[2])"), "data_offsets");
  expect_refused(file_with_tensor(""), "dtype");
  for (const char* entry : {"7", "null", "[]", "\"F32\""}) {
    expect_refused(file_with(R"({"a":)" + std::string(entry) + "}"), "header is damaged");
  }
}

// One damaged copy of a valid file. Only the generator's own numbers are used: distributions differ between libraries.
class Mutator {
 public:
  explicit Mutator(std::string valid) : valid_(std::move(valid)) {}

  std::string next() {
    std::string bytes = valid_;
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), kLengthBytes);
    for (size_t edits = 1 + below(3); edits > 0; --edits) edit(bytes, std::min(bytes.size(), kLengthBytes + header));
    // Without this the length alone would refuse most of the files.
    if (below(2) == 0 && bytes.size() > kLengthBytes) {
      const size_t data = valid_.size() - kLengthBytes - header;
      if (bytes.size() >= kLengthBytes + data) bytes.replace(0, 8, little_endian(bytes.size() - kLengthBytes - data));
    }
    return bytes;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : generator_() % limit; }

  void edit(std::string& bytes, size_t header_end) {
    static const std::string kText = "{}[]\",:0123456789-+.eE\\ tfn";
    static const char* const kNumbers[] = {"-1",
                                           "0",
                                           "1.5",
                                           "1e3",
                                           "4294967296",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "18446744073709551615",
                                           "99999999999999999999"};
    const size_t at = below(below(8) == 0 ? bytes.size() : header_end);
    if (bytes.empty()) return;
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        return;
      case 1:
        bytes[at] = kText[below(kText.size())];
        return;
      case 2:
        bytes.erase(at, 1 + below(8));
        return;
      case 3:
        bytes.insert(at, 1, below(2) == 0 ? kText[below(kText.size())] : static_cast<char>(below(256)));
        return;
      case 4: {
        const size_t begin = bytes.find_first_of("0123456789", at);
        if (begin == std::string::npos) return;
        const size_t end = bytes.find_first_not_of("0123456789", begin);
        bytes.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
        return;
      }
      default:
        if (below(8) == 0) bytes.resize(at);
    }
  }

  std::string valid_;
  std::mt19937_64 generator_{20};
};

TEST_F(Safetensors, EveryDamagedFileLoadsOrIsAnError) {
  Mutator mutator(bytes_of({{"weight", torch::ones({2, 3})},
                            {"bias", torch::ones({3}, torch::kFloat64)},
                            {"steps", torch::tensor(7, torch::kInt16)},
                            {"none", torch::empty({0, 4}, torch::kInt8)}},
                           {{"format", "pt"}}));
  int loaded = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes = mutator.next();
    const auto file = store(bytes);
    LittleMemory little;
    try {
      size_t read = 0;
      for (const auto& [name, tensor] : read_safetensors(file)) read += tensor.nbytes();
      EXPECT_LE(read, bytes.size());
      ++loaded;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(file.string())) << "mutation " << i << ": " << bytes;
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << i << ": " << foreign(error) << "\n" << bytes;
    }
  }
  EXPECT_GT(loaded, 50);  // the generator reaches past the first check, on either side
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace fsdp::checkpoint
