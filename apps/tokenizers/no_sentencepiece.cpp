// Stands in for sentencepiece.cpp where the build had no sentencepiece.
#include <fmt/format.h>
#include <fsdp/error.h>

#include "tokenizers/sentencepiece.h"

namespace tokenizers {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw fsdp::Error(
      fmt::format("{}: this program was built without sentencepiece. Install it (Debian: libsentencepiece-dev), "
                  "configure and build again, or use the tokenizer bytes.",
                  what));
}

}  // namespace

bool has_sentencepiece() { return false; }
std::string sentencepiece_problem() { return "this program was built without it"; }

std::shared_ptr<const Tokenizer> make_sentencepiece(std::string, const std::string& name) {
  refuse(fmt::format("tokenizer '{}' cannot be used", name));
}

std::string train_sentencepiece(const NextSentence&, int64_t) { refuse("no tokenizer can be trained"); }

}  // namespace tokenizers
