// Changes to the files of a checkpoint.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace fsdp::testing {

inline void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

struct Flip {
  std::string file;
  size_t byte = 0;
  int bit = 0;
};

inline void flip(const std::filesystem::path& directory, const Flip& flip) {
  std::fstream file(directory / flip.file, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(flip.byte));
  const auto byte = static_cast<char>(file.get() ^ 1 << flip.bit);
  file.seekp(static_cast<std::streamoff>(flip.byte));
  file.put(byte);
}

}  // namespace fsdp::testing
