// A safetensors file with one thing wrong is an error that names the file and what is wrong.
#include <gmock/gmock.h>

#include "checkpoint/safetensors_files.h"

namespace fsdp::checkpoint::safetensors_files {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace fsdp::checkpoint::safetensors_files
