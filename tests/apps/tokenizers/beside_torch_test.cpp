// sentencepiece and LibTorch in one process, which have a global variable of one name and two types
// (tokenizers/sentencepiece_module.h).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "apps/tokenizers/sentences.h"
#include "support/required.h"
#include "tokenizers/sentencepiece.h"

namespace tokenizers {
namespace {

// LibTorch's variable and what lies around it.
std::string around_torch_variable() {
  const auto* variable = static_cast<const char*>(dlsym(RTLD_DEFAULT, "FLAGS_minloglevel"));
  return variable == nullptr ? "" : std::string(variable - 32, variable + 64);
}

TEST(SentencePiece, LeavesLibTorchAlone) {
  if (!has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  const torch::Tensor before = torch::arange(10).sum();
  const std::string variables = around_torch_variable();
  ASSERT_FALSE(variables.empty()) << "LibTorch has no such variable any more: this test says nothing";
  const std::string text = some_text(1000);
  const auto tokenizer = make_sentencepiece(train_sentencepiece(lines_of(text), 400), "test.model");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(around_torch_variable(), variables);
  EXPECT_TRUE(torch::arange(10).sum().equal(before));
}

// The library's destructors run when the process ends: what they free is theirs.
TEST(SentencePiece, TheProcessEndsWell) {
  if (!has_sentencepiece()) FSDP_SKIP_TEST("built without sentencepiece");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto use_both = [] {
    const auto tokenizer = make_sentencepiece(train_sentencepiece(lines_of(some_text(500)), 300), "test.model");
    const auto tokens = tokenizer->encode("the word");
    std::exit(torch::tensor(tokens).size(0) > 0 ? 0 : 1);
  };
  EXPECT_EXIT(use_both(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tokenizers
