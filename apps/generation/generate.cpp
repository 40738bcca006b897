#include "generation/generate.h"

#include <cstring>
#include <utility>
#include <vector>

#include "run/first_rank.h"

namespace trainer {

namespace {

using Tokens = std::vector<int32_t>;

// The prompt and what follows it.
Tokens all_tokens(const WritingModel& model, const tokenizers::Tokenizer& tokenizer, Tokens prompt,
                  const WritingOptions& options, torch::Device device) {
  Tokens all = prompt;
  Writer writer(model, tokenizer, std::move(prompt), options, device);
  writer.write(static_cast<uint64_t>(options.seed), [&](int32_t token) { all.push_back(token); });
  return all;
}

// For from_first_rank, which hands bytes around.
std::string bytes_of(const Tokens& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)};
}

Tokens tokens_of(const std::string& bytes) {
  Tokens tokens(bytes.size() / sizeof(int32_t));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

}  // namespace

std::string generate(const WritingModel& model, const tokenizers::Tokenizer& tokenizer, const WritingOptions& options,
                     torch::Device device) {
  return tokenizer.decode(all_tokens(model, tokenizer, prompt_tokens(tokenizer, options.prompt), options, device));
}

SharedSample generate_together(fsdp::World& world, const WritingModel& model, const tokenizers::Tokenizer& tokenizer,
                               const WritingOptions& options) {
  const bool speaks = world.rank() == 0;
  Tokens prompt;
  try {
    prompt = tokens_of(from_first_rank(world, [&] { return bytes_of(prompt_tokens(tokenizer, options.prompt)); }));
  } catch (const AgreedError& error) {
    return {.text = "", .problem = speaks ? error.what() : ""};
  }
  const Tokens all = all_tokens(model, tokenizer, std::move(prompt), options, world.device());
  try {
    return {.text = speaks ? tokenizer.decode(all) : "", .problem = ""};
  } catch (const fsdp::Error& error) {
    return {.text = "", .problem = error.what()};
  }
}

}  // namespace trainer
