#include "tokenizers/sentencepiece_module.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentencepiece::logging {
// A function of the library that is in none of its public headers.
void SetMinLogLevel(int level);
}  // namespace sentencepiece::logging

namespace {

using sentencepiece::SentencePieceProcessor;
using Status = sentencepiece::util::Status;

const SentencePieceProcessor& processor(const void* model) {
  return *static_cast<const SentencePieceProcessor*>(model);
}

void give(const FsdpTextSink& sink, std::string_view text) { sink.take(sink.owner, text.data(), text.size()); }

// Runs `work`, which returns a status; no exception crosses the interface.
template <typename Work>
bool succeeds(const FsdpTextSink& problem, Work work) try {
  const Status status = work();
  if (!status.ok()) give(problem, status.ToString());
  return status.ok();
} catch (const std::exception& error) {
  give(problem, error.what());
  return false;
}

void* load(const char* model, size_t size, FsdpTextSink problem) {
  auto loaded = std::make_unique<SentencePieceProcessor>();
  const bool good = succeeds(problem, [&] { return loaded->LoadFromSerializedProto({model, size}); });
  return good ? loaded.release() : nullptr;
}

void unload(void* model) { delete static_cast<SentencePieceProcessor*>(model); }

int32_t vocabulary(const void* model) { return processor(model).GetPieceSize(); }
int32_t end_of_text(const void* model) { return processor(model).eos_id(); }

bool encode(const void* model, const char* text, size_t size, FsdpTokenSink tokens, FsdpTextSink problem) {
  std::vector<int> ids;
  const bool good = succeeds(problem, [&] { return processor(model).Encode({text, size}, &ids); });
  if (good) tokens.take(tokens.owner, ids.data(), ids.size());
  return good;
}

bool decode(const void* model, const int32_t* tokens, size_t count, FsdpTextSink text, FsdpTextSink problem) {
  std::string decoded;
  const std::vector<int> ids(tokens, tokens + count);
  const bool good = succeeds(problem, [&] { return processor(model).Decode(ids, &decoded); });
  if (good) give(text, decoded);
  return good;
}

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(FsdpSentences source) : source_(source) { Next(); }
  bool done() const override { return done_; }
  const std::string& value() const override { return value_; }
  Status status() const override { return Status(); }
  void Next() override {
    const char* bytes = nullptr;
    size_t size = 0;
    done_ = !source_.next(source_.owner, &bytes, &size);
    if (!done_) value_.assign(bytes, size);
  }

 private:
  FsdpSentences source_;
  std::string value_;
  bool done_ = false;
};

// Nothing is normalised, so that decoding gives the text back.
std::unordered_map<std::string, std::string> training_settings(int32_t vocabulary) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocabulary)},
          {"hard_vocab_limit", "false"},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"},
          {"max_sentence_length", "65536"},
          {"num_threads", "1"}};  // the threads have nothing to do but in the unigram model
}

bool train(FsdpSentences sentences, int32_t vocabulary, FsdpTextSink model, FsdpTextSink problem) {
  std::string trained;
  const bool good = succeeds(problem, [&] {
    Sentences iterator(sentences);
    return sentencepiece::SentencePieceTrainer::Train(training_settings(vocabulary), &iterator, &trained);
  });
  if (good) give(model, trained);
  return good;
}

}  // namespace

const FsdpSentencePiece* fsdp_sentencepiece() {
  // The library tells its doings on standard error; what matters comes back as a status. Nor could it print there: with
  // RTLD_DEEPBIND its std::cerr may not be constructed.
  constexpr int kNothing = 4;
  sentencepiece::logging::SetMinLogLevel(kNothing);
  static constexpr FsdpSentencePiece kFunctions = {load, unload, vocabulary, end_of_text, encode, decode, train};
  return &kFunctions;
}
