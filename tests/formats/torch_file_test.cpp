// Files of torch.save: what is written is read, and what cannot be is an error before anything is allocated. Python's
// own reader and writer are in tests/apps/fsdp-convert.
#include "formats/torch_file.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>
#include <random>

#include "formats/pickle_writer.h"
#include "formats/torch_file_writer.h"
#include "formats/zip_writer.h"
#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/scratch_directory.h"

namespace fsdp::formats {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A tensor in a pickle, as a test reads it.
struct TestTensor {
  const char* function = "_rebuild_tensor_v2";
  const char* storage = "FloatStorage";
  int64_t storage_numel = 6;
  int64_t offset = 0;
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
};

class TorchFileTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "x.pt"; }

  // {"w": a tensor}, and a storage of six floats.
  std::string message(const TestTensor& tensor) {
    PickleWriter out;
    out.empty_dict();
    out.text("w");
    append(out, tensor);
    out.set_item();
    return message(out.finish());
  }

  std::string message(const std::string& pickle) {
    write(pickle);
    return message_of<Error>([&] { read(); });
  }

  static void append(PickleWriter& out, const TestTensor& tensor) {
    out.global("torch._utils", tensor.function);
    out.mark();
    out.mark();
    out.text("storage");
    out.global("torch", tensor.storage);
    out.text("0");
    out.text("cpu");
    out.number(tensor.storage_numel);
    out.tuple();
    out.persistent();
    out.number(tensor.offset);
    out.numbers(tensor.shape);
    out.numbers(tensor.strides);
    out.boolean(false);
    out.empty_dict();
    out.tuple();
    out.call();
  }

  void write(const std::string& pickle) {
    std::filesystem::remove(path());
    files::DurableFile file(path());
    ZipWriter zip(file);
    zip.add("x/data.pkl", pickle);
    const std::vector<float> values = {0, 1, 2, 3, 4, 5};
    zip.add("x/data/0", values.data(), values.size() * sizeof(float));
    zip.finish();
    file.close();
  }

  std::map<std::string, torch::Tensor> read() {
    const files::OpenFile file = files::open_regular(path(), path().string());
    const TorchFile torch_file(file, 0, file.bytes, path().string());
    std::map<std::string, torch::Tensor> tensors;
    for (const auto& tensor : torch_file.tensors()) {
      tensors[fmt::format("{}", fmt::join(tensor.path, "/"))] = torch_file.read(tensor);
    }
    return tensors;
  }

  torch::Tensor read_tensor(const TestTensor& tensor) {
    EXPECT_EQ(message(tensor), "no error");
    return read().at("w");
  }

 private:
  fsdp::testing::ScratchDirectory directory_;
};

TEST_F(TorchFileTest, HasEveryTensorThatWasWritten) {
  const std::vector<torch::Tensor> values = {torch::randn({3, 4}),
                                             torch::randint(0, 9, {5}, torch::kInt64),
                                             torch::randn({2}).to(torch::kBFloat16),
                                             torch::tensor(7.0),
                                             torch::empty({0, 3}),
                                             torch::tensor({true, false})};
  std::vector<TorchFileWriter::Tensor> announced;
  for (size_t i = 0; i < values.size(); ++i) {
    announced.push_back({{"model", std::to_string(i) + ".w"}, values[i].scalar_type(), values[i].sizes().vec()});
  }
  announced.push_back({{"model", "tied"}, torch::kFloat32, {3, 4}, 0});
  std::filesystem::remove(path());
  files::DurableFile file(path());
  TorchFileWriter writer(file, announced, {{"step", 12}});
  for (const torch::Tensor& value : values) writer.write(value);
  writer.finish();
  file.close();
  const auto found = read();
  ASSERT_EQ(found.size(), values.size() + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const torch::Tensor& tensor = found.at(fmt::format("model/{}.w", i));
    EXPECT_EQ(tensor.scalar_type(), values[i].scalar_type());
    EXPECT_TRUE(torch::equal(tensor, values[i])) << i;
  }
  EXPECT_TRUE(torch::equal(found.at("model/tied"), values[0]));
  const files::OpenFile open = files::open_regular(path(), "x");
  const TorchFile torch_file(open, 0, open.bytes, "x");
  EXPECT_EQ(torch_file.numbers().at("step"), 12);
  EXPECT_EQ(torch_file.tensors()[0].layout, torch_file.tensors().back().layout);
}

TEST_F(TorchFileTest, StridesAndOffsetsSayWhereElementsLie) {
  EXPECT_TRUE(torch::equal(read_tensor({}), torch::arange(6, torch::kFloat32).view({2, 3})));
  EXPECT_TRUE(torch::equal(read_tensor({.shape = {3, 2}, .strides = {1, 3}}),
                           torch::arange(6, torch::kFloat32).view({2, 3}).t()));
  EXPECT_TRUE(torch::equal(read_tensor({.offset = 4, .shape = {2}, .strides = {1}}), torch::tensor({4.0f, 5.0f})));
  EXPECT_EQ(read_tensor({.offset = 6, .shape = {0, 3}, .strides = {3, 1}}).numel(), 0);
}

TEST_F(TorchFileTest, ATensorThatDoesNotLieInItsStorageIsRefused) {
  EXPECT_THAT(message(TestTensor{.offset = 1}), HasSubstr("ends behind its storage"));
  EXPECT_THAT(message(TestTensor{.offset = -1}), HasSubstr("begins before its storage"));
  EXPECT_THAT(message(TestTensor{.strides = {4, 1}}), HasSubstr("ends behind its storage"));
  EXPECT_THAT(message(TestTensor{.strides = {3}}), HasSubstr("number of strides"));
  EXPECT_THAT(message(TestTensor{.strides = {-3, 1}}), HasSubstr("something else than sizes"));
  EXPECT_THAT(message(TestTensor{.strides = {INT64_MAX, 1}}), HasSubstr("64 bits"));
  EXPECT_THAT(message(TestTensor{.shape = {INT64_MAX, 3}}), HasSubstr("more elements than memory can hold"));
  EXPECT_THAT(message(TestTensor{.shape = {int64_t{1} << 40, int64_t{1} << 40, 0}, .strides = {0, 0, 0}}),
              HasSubstr("more elements than memory can hold"));
  EXPECT_THAT(message(TestTensor{.shape = {1 << 20, 1 << 20}, .strides = {0, 0}}), HasSubstr("expanded"));
  EXPECT_THAT(message(TestTensor{.storage_numel = 7}), AllOf(HasSubstr("24 bytes"), HasSubstr("28")));
  EXPECT_THAT(message(TestTensor{.storage_numel = INT64_MAX}), HasSubstr("more elements than memory can hold"));
  EXPECT_THAT(message(TestTensor{.storage = "DoubleStorage"}), HasSubstr("24 bytes"));
  EXPECT_THAT(message(TestTensor{.storage = "ComplexFloatStorage"}),
              HasSubstr("calls torch.ComplexFloatStorage of Python"));
  EXPECT_THAT(message(TestTensor{.function = "_rebuild_sparse_tensor"}),
              HasSubstr("fsdp-convert runs no code of files"));
}

TEST_F(TorchFileTest, DictsThatHoldThemselvesOrTooMuchAreRefused) {
  // {"a": itself}, and thirty dicts of which each holds the next one twice
  using namespace std::string_literals;
  EXPECT_THAT(message("\x80\x02}q\x01X\x01\0\0\0ah\x01s."s), HasSubstr("nest deeper than 64"));
  std::string twice = "\x80\x02}q\x01"s;
  for (int i = 0; i < 30; ++i) {
    twice += "}X\x01\0\0\0ah\x01sX\x01\0\0\0bh\x01sq\x01"s;
  }
  // The dicts that were made before stay on the stack, so that the last one is put into a tuple with them.
  EXPECT_THAT(message("\x80\x02("s + twice.substr(2) + "t."), HasSubstr("more than"));
}

TEST_F(TorchFileTest, OtherZipFilesAndDamagedOnesAreRefused) {
  std::filesystem::remove(path());
  {
    files::DurableFile file(path());
    ZipWriter zip(file);
    zip.add("word/document.xml", "text");
    zip.finish();
    file.close();
  }
  EXPECT_THAT(message_of<Error>([&] { read(); }), HasSubstr("it has no data.pkl"));
  write("\x80\x02}.");
  std::string bytes;
  {
    std::ifstream in(path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2'000; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << changed;
    const std::string said = message_of<Error>([&] { read(); });
    EXPECT_TRUE(said == "no error" || said.find("x.pt") != std::string::npos) << said;
  }
}

}  // namespace
}  // namespace fsdp::formats
