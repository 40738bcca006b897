// Files in the safetensors format for tests: valid and damaged ones, byte for byte, and the errors of reading them.
#pragma once

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "fsdp/error.h"
#include "support/scratch_directory.h"

namespace fsdp::checkpoint::safetensors_files {

inline constexpr size_t kLengthBytes = 8;

inline std::string little_endian(uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &value, kLengthBytes);
  return bytes;
}

inline std::string file_with(const std::string& header, const std::string& data = "") {
  return little_endian(header.size()) + header + data;
}

// A file with one tensor, "a", and as many bytes as [2] of F32 needs.
inline std::string file_with_tensor(const std::string& fields) {
  return file_with("{\"a\":{" + fields + "}}", "12345678");
}

inline std::string file_with_shape(const std::string& shape) {
  return file_with_tensor(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,8])");
}

inline std::string file_with_offsets(const std::string& offsets) {
  return file_with_tensor(R"("dtype":"F32","shape":[2],"data_offsets":)" + offsets);
}

// Tensors of U8, "a", "b" and so on, at these offsets.
inline std::string file_with_bytes(const std::vector<std::pair<int, int>>& offsets, const std::string& data) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [begin, end] : offsets) {
    header[std::string(1, static_cast<char>('a' + header.size()))] = {
        {"dtype", "U8"}, {"shape", {end - begin}}, {"data_offsets", {begin, end}}};
  }
  return file_with(header.dump(), data);
}

inline nlohmann::json header_of(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return nlohmann::json::parse(bytes.substr(kLengthBytes, length));
}

inline bool same_bits(const torch::Tensor& expected, const torch::Tensor& found) {
  const torch::Tensor values = expected.detach().contiguous();
  return values.dtype() == found.dtype() && values.sizes() == found.sizes() && found.is_contiguous() &&
         (values.numel() == 0 || std::memcmp(values.const_data_ptr(), found.const_data_ptr(), values.nbytes()) == 0);
}

// A c10::Error has its stack trace behind the first line.
inline std::string foreign(const std::exception& error) {
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

// Reads and writes in a directory of the test's own.
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
    using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;
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

}  // namespace fsdp::checkpoint::safetensors_files
