#include "tokenizers/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "files/json.h"
#include "files/printable.h"
#include "tokenizers/helper_process.h"
#include "tokenizers/hugging_face_helper.h"

namespace tokenizers {

namespace {

using Process = std::unique_ptr<HelperProcess>;

std::vector<std::string> pythons() {
  const char* own = std::getenv("FSDP_PYTHON");
  if (own != nullptr && *own != '\0') return {own};
  std::vector<std::string> all;
  std::error_code ignored;
  if (std::filesystem::exists(FSDP_PYTHON_OF_PROJECT, ignored)) all.emplace_back(FSDP_PYTHON_OF_PROJECT);
  all.emplace_back("python3");
  return all;
}

// The first Python that has the package.
Process start_python(const std::string& name) {
  std::vector<std::string> failures;
  for (const std::string& python : pythons()) {
    try {
      auto process = std::make_unique<HelperProcess>(std::vector<std::string>{python, "-c", kHuggingFaceHelper});
      process->answer();
      return process;
    } catch (const HelperProcess::Refusal& refusal) {
      failures.push_back(fmt::format("{} says: {}", python, refusal.why));
    } catch (const fsdp::Error& error) {
      failures.emplace_back(error.what());
    }
  }
  throw fsdp::Error(
      fmt::format("tokenizer '{}' is one of Hugging Face, and needs Python with the package tokenizers: {}. Install it "
                  "(pip install tokenizers), or name a Python that has it in FSDP_PYTHON.",
                  name, fmt::join(failures, "; ")));
}

template <typename Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

class HuggingFace final : public Tokenizer {
 public:
  HuggingFace(std::string json, std::string name, Process process)
      : name_(std::move(name)), json_(std::move(json)), process_(std::move(process)) {
    const auto facts = fsdp::files::parse_json(load(), fmt::format("what Python says of tokenizer '{}'", name_));
    vocabulary_ = facts.at("vocabulary").get<int64_t>();
    if (!facts.at("end_of_text").is_null()) end_of_text_ = facts.at("end_of_text").get<int32_t>();
  }

  std::string name() const override { return name_; }
  int64_t vocabulary() const override { return vocabulary_; }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  File file() const override { return {.name = "tokenizer.json", .bytes = json_}; }

  std::vector<int32_t> encode(std::string_view text) const override { return encode_several({&text, 1}, 1).front(); }

  std::vector<std::vector<int32_t>> encode_several(std::span<const std::string_view> texts,
                                                   int threads) const override {
    std::string question;
    append(question, static_cast<uint32_t>(threads));
    append(question, static_cast<uint32_t>(texts.size()));
    for (std::string_view text : texts) append(question, static_cast<uint64_t>(text.size()));
    for (std::string_view text : texts) question += text;
    return taken_apart(ask('E', question), texts.size());
  }

  size_t texts_at_once(int threads) const override {
    constexpr size_t kLeast = 16;  // so that questions are few
    return std::max(kLeast, 4 * Tokenizer::texts_at_once(threads));
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    for (int32_t token : tokens) check(token);
    return ask('D', {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
  }

 private:
  void check(int32_t token) const {
    if (token >= 0 && token < vocabulary_) return;
    throw fsdp::Error(fmt::format("token {} is outside of the vocabulary of tokenizer '{}': expected 0 to {}.", token,
                                  name_, vocabulary_ - 1));
  }

  std::string load() const try { return process_->ask('L', json_); } catch (const HelperProcess::Refusal& refusal) {
    throw fsdp::Error(fmt::format("tokenizer '{}' is no tokenizer.json of Hugging Face, or is damaged: {}.", name_,
                                  fsdp::files::printable(refusal.why)));
  } catch (const fsdp::Error& error) {
    fail("reading it", error);
  }

  // A rank was forked from the process that made the tokenizer, and starts a Python of its own.
  std::string ask(char question, std::string_view payload) const try {
    const std::lock_guard lock(mutex_);
    if (!process_ || !process_->is_mine()) {
      process_ = start_python(name_);
      load();
    }
    return process_->ask(question, payload);
  } catch (const HelperProcess::Refusal& refusal) {
    throw fsdp::Error(fmt::format("tokenizer '{}' cannot {}: {}.", name_,
                                  question == 'E' ? "encode a text" : "decode tokens",
                                  fsdp::files::printable(refusal.why)));
  } catch (const fsdp::Error& error) {
    fail(question == 'E' ? "encoding a text" : "decoding tokens", error);
  }

  [[noreturn]] void fail(const char* doing, const fsdp::Error& error) const {
    process_.reset();  // another one may fare better
    throw fsdp::Error(fmt::format("tokenizer '{}': {} failed, as {}.", name_, doing, error.what()));
  }

  std::vector<std::vector<int32_t>> taken_apart(const std::string& answer, size_t count) const {
    std::vector<uint64_t> sizes(count);
    uint64_t all = count * sizeof(uint64_t);
    if (answer.size() >= all) std::memcpy(sizes.data(), answer.data(), all);
    const char* next = answer.data() + all;
    for (uint64_t size : sizes) all += size * sizeof(int32_t);
    if (answer.size() != all) throw fsdp::Error(fmt::format("tokenizer '{}': Python's answer is damaged.", name_));
    std::vector<std::vector<int32_t>> tokens;
    for (uint64_t size : sizes) {
      tokens.emplace_back(size);
      std::memcpy(tokens.back().data(), next, size * sizeof(int32_t));
      next += size * sizeof(int32_t);
      for (int32_t token : tokens.back()) check(token);
    }
    return tokens;
  }

  std::string name_, json_;
  int64_t vocabulary_ = 0;
  std::optional<int32_t> end_of_text_;
  mutable std::mutex mutex_;
  mutable Process process_;
};

}  // namespace

bool has_hugging_face() try {
  start_python("");
  return true;
} catch (const fsdp::Error&) {
  return false;
}

std::shared_ptr<const Tokenizer> make_hugging_face(std::string json, const std::string& name) {
  return std::make_shared<HuggingFace>(std::move(json), name, start_python(name));
}

std::shared_ptr<const Tokenizer> make_hugging_face(std::string_view vocabulary, std::string_view merges,
                                                   const std::string& name) try {
  Process process = start_python(name);
  std::string question;
  append(question, static_cast<uint64_t>(vocabulary.size()));
  question += vocabulary;
  question += merges;
  std::string json = process->ask('V', question);
  return std::make_shared<HuggingFace>(std::move(json), name, std::move(process));
} catch (const HelperProcess::Refusal& refusal) {
  throw fsdp::Error(fmt::format("tokenizer '{}': its vocab.json and merges.txt cannot be read: {}.", name,
                                fsdp::files::printable(refusal.why)));
}

}  // namespace tokenizers
