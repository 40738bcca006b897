// The checksum of zip files: CRC-32 of ISO 3309, as in section 4.4.7 of their specification.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fsdp::formats {

// The checksum of the bytes before, which is `crc` (0 if there are none), and of these. Pure.
uint32_t crc32(uint32_t crc, const void* bytes, size_t size);

}  // namespace fsdp::formats
