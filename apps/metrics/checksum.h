// CRC-32C (Castagnoli), as RFC 3720 has it in appendix B.4.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainer {

uint32_t crc32c(std::string_view bytes);

}  // namespace trainer
