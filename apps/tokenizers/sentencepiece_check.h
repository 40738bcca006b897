// Checks the bytes of a sentencepiece model before its library reads them, which trusts some of them.
#pragma once

#include <string>
#include <string_view>

namespace tokenizers {

// Looks at the fields of the model's protocol buffer (https://protobuf.dev/programming-guides/encoding;
// sentencepiece_model.proto): whether each lies within its bytes, how many pieces there are, whether their scores are
// numbers, and whether the double arrays of the normalisers (Darts-clone, https://github.com/s-yata/darts-clone) lead
// nowhere outside of themselves and of their texts. The library reads these arrays without looking. All else it finds
// out itself. Throws fsdp::Error, which `name` begins.
void check_sentencepiece(std::string_view model, const std::string& name);

}  // namespace tokenizers
