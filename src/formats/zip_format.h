// The numbers of zip files (APPNOTE.TXT), which reader and writer share. All are little-endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace fsdp::formats::zip {

inline constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                          kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
inline constexpr int64_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                         kEnd64LocatorBytes = 20;
inline constexpr uint16_t kStored = 0, kEncryptedFlag = 1, kZip64Extra = 1, kPaddingExtra = 0x4246;
inline constexpr uint32_t kIn64 = 0xFFFFFFFF;  // in place of a number of 32 bits: zip64 has it

// The number at `offset` of the bytes, which has to lie in them.
template <typename Number>
Number number_at(std::string_view bytes, size_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

template <typename Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace fsdp::formats::zip
