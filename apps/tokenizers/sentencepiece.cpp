#include "tokenizers/sentencepiece.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fsdp/error.h>

#include <exception>
#include <filesystem>
#include <utility>

#include "tokenizers/sentencepiece_check.h"
#include "tokenizers/sentencepiece_module.h"

namespace tokenizers {

namespace fs = std::filesystem;

namespace {

// Where an installed program has the module, otherwise where it was built.
fs::path module_path() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path() / FSDP_SENTENCEPIECE_INSTALLED;
  return fs::exists(installed, ignored) ? installed : fs::path(FSDP_SENTENCEPIECE_BUILT);
}

const FsdpSentencePiece* load_module() {
  const fs::path path = module_path();
  // Never closed: what it has given lives until the process ends.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  void* function = module != nullptr ? dlsym(module, "fsdp_sentencepiece") : nullptr;
  if (function == nullptr) {
    throw fsdp::Error(
        fmt::format("sentencepiece cannot be loaded: {}. Install it (Debian: libsentencepiece0), or use the tokenizer "
                    "bytes.",
                    dlerror()));
  }
  return reinterpret_cast<decltype(&fsdp_sentencepiece)>(function)();
}

const FsdpSentencePiece& library() {
  static const FsdpSentencePiece* functions = load_module();
  return *functions;
}

FsdpTextSink into(std::string& text) {
  return {&text,
          [](void* owner, const char* bytes, size_t size) { static_cast<std::string*>(owner)->append(bytes, size); }};
}

FsdpTokenSink into(std::vector<int32_t>& tokens) {
  return {&tokens, [](void* owner, const int32_t* given, size_t count) {
            auto* all = static_cast<std::vector<int32_t>*>(owner);
            all->insert(all->end(), given, given + count);
          }};
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string model, std::string name) : name_(std::move(name)), bytes_(std::move(model)) {
    check_sentencepiece(bytes_, name_);
    std::string problem;
    model_ = library().load(bytes_.data(), bytes_.size(), into(problem));
    if (model_ == nullptr) {
      throw fsdp::Error(fmt::format("tokenizer '{}' is no sentencepiece model, or is damaged: {}.", name_, problem));
    }
  }
  ~SentencePiece() override { library().unload(model_); }
  SentencePiece(const SentencePiece&) = delete;
  SentencePiece& operator=(const SentencePiece&) = delete;

  std::string name() const override { return name_; }
  int64_t vocabulary() const override { return library().vocabulary(model_); }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    std::string problem;
    if (!library().encode(model_, text.data(), text.size(), into(tokens), into(problem))) {
      throw fsdp::Error(
          fmt::format("tokenizer '{}' cannot encode a text of {} bytes: {}.", name_, text.size(), problem));
    }
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    for (int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        throw fsdp::Error(fmt::format("token {} is outside of the vocabulary of tokenizer '{}': expected 0 to {}.",
                                      token, name_, vocabulary() - 1));
      }
    }
    std::string text, problem;
    if (!library().decode(model_, tokens.data(), tokens.size(), into(text), into(problem))) {
      throw fsdp::Error(fmt::format("tokenizer '{}' cannot decode {} tokens: {}.", name_, tokens.size(), problem));
    }
    return text;
  }

  std::optional<int32_t> end_of_text() const override {
    const int32_t token = library().end_of_text(model_);
    return token < 0 ? std::nullopt : std::optional(token);
  }

  File file() const override { return {.name = "tokenizer.model", .bytes = bytes_}; }

 private:
  std::string name_, bytes_;
  void* model_ = nullptr;
};

// Sentences on their way into the module, through which no exception may pass.
struct Feed {
  const NextSentence& next;
  int64_t given = 0;
  std::exception_ptr failure = nullptr;
};

bool give_sentence(void* owner, const char** bytes, size_t* size) {
  auto& feed = *static_cast<Feed*>(owner);
  try {
    const std::optional<std::string_view> sentence = feed.next();
    if (!sentence) return false;
    *bytes = sentence->data();
    *size = sentence->size();
    ++feed.given;
    return true;
  } catch (...) {
    feed.failure = std::current_exception();
    return false;
  }
}

}  // namespace

bool has_sentencepiece() { return true; }

std::string sentencepiece_problem() try {
  library();
  return "";
} catch (const fsdp::Error& error) {
  return error.what();
}

std::shared_ptr<const Tokenizer> make_sentencepiece(std::string model, const std::string& name) {
  return std::make_shared<SentencePiece>(std::move(model), name);
}

std::string train_sentencepiece(const NextSentence& next, int64_t vocabulary) {
  constexpr int64_t kBytes = 256, kControls = 3, kMost = 1'000'000;  // controls: unknown, begin and end of a text
  if (vocabulary <= kBytes + kControls || vocabulary > kMost) {
    throw fsdp::Error(fmt::format("a sentencepiece model cannot have a vocabulary of {}: expected {} to {}.",
                                  vocabulary, kBytes + kControls + 1, kMost));
  }
  Feed feed{next};
  std::string model, problem;
  const bool good =
      library().train({&feed, give_sentence}, static_cast<int32_t>(vocabulary), into(model), into(problem));
  if (feed.failure) std::rethrow_exception(feed.failure);
  if (!good) {
    throw fsdp::Error(fmt::format(
        "a sentencepiece model of {} tokens cannot be trained on {} lines: {}. Use another vocabulary, or a "
        "longer text.",
        vocabulary, feed.given, problem));
  }
  return model;
}

}  // namespace tokenizers
