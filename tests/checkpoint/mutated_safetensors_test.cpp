// A safetensors file with any damage, by chance, loads or is an error that names it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <string>

#include "checkpoint/safetensors_files.h"

namespace fsdp::checkpoint::safetensors_files {
namespace {

using ::testing::HasSubstr;

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
}  // namespace fsdp::checkpoint::safetensors_files
