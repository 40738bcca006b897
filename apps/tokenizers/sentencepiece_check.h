// Checks the bytes of a sentencepiece model before its library reads them, which trusts some of them.
#pragma once

#include <string>
#include <string_view>

namespace tokenizers {

// Checks the fields of the model's protocol buffer (https://protobuf.dev/programming-guides/encoding;
// sentencepiece_model.proto): each lies within its bytes, the number of pieces is allowed, and their scores are
// numbers. The double arrays of the normalisers (Darts-clone, https://github.com/s-yata/darts-clone) must not lead
// outside of themselves or of their texts. The library reads these arrays without looking. All else it finds out
// itself. Throws fsdp::Error, which `name` begins.
void check_sentencepiece(std::string_view model, const std::string& name);

}  // namespace tokenizers
