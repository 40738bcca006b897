// A tokenizer of Hugging Face from the text to the exported model.
#include <gmock/gmock.h>

#include "apps/fsdp-train/train_program.h"
#include "apps/tokenizers/byte_level.h"
#include "files/printable.h"
#include "support/required.h"
#include "tokenizers/hugging_face.h"

namespace {

using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

class TokenizerProgram : public TrainProgram {
 protected:
  void SetUp() override {
    if (!tokenizers::has_hugging_face())
      FSDP_SKIP_TEST("no Python has the package tokenizers (pip install tokenizers)");
  }

  ByteLevel byte_level_ = some_byte_level();
  std::string file_ = folder_.write("given/tokenizer.json", byte_level_.tokenizer_json());
};

TEST_F(TokenizerProgram, GoesFromTheTextToTheExportedModel) {
  const std::string tokens = folder_ / "tokens";
  const Ending prepared = run_train("prepare --text " + text_ + " --tokenizer " + file_ + " --output " + tokens);
  ASSERT_EQ(prepared.code, 0) << prepared.output;
  EXPECT_THAT(prepared.output, HasSubstr("vocabulary " + std::to_string(byte_level_.size())));
  EXPECT_EQ(read_bytes(tokens + "/tokenizer.json"), byte_level_.tokenizer_json());
  const std::string job = "--steps 2 --ranks 2 --prompt 'the word' ";
  const Ending of_text = tiny("one", job + "--export --tokenizer " + file_);
  ASSERT_EQ(of_text.code, 0) << of_text.output;
  fs::remove_all(folder_ / "given");  // what a run needs of it lies in its folder
  const Ending of_tokens = tiny("two", job + "--data " + tokens);
  ASSERT_EQ(of_tokens.code, 0) << of_tokens.output;
  EXPECT_EQ(losses_of(folder_ / "one"), losses_of(folder_ / "two"));
  const std::string text = read_bytes(folder_ / "one/sample.txt");
  EXPECT_THAT(text, StartsWith("the word"));
  EXPECT_EQ(read_bytes(folder_ / "two/sample.txt"), text);
  fs::rename(folder_ / "one/model", folder_ / "model");
  for (const std::string place : {"one", "two/step-2", "model"}) {
    const Ending sample =
        run_train("sample " + (folder_ / place) + " --threads 1 --sample-length 20 --prompt 'the word'");
    EXPECT_EQ(sample.code, 0) << sample.output;
    EXPECT_EQ(sample.output, fsdp::files::printable_lines(text) + "\n") << place;
  }
}

TEST_F(TokenizerProgram, ExportsWhatTransformersLoads) {
  const Ending ending = tiny("run", "--steps 2 --export --tokenizer " + file_);
  ASSERT_EQ(ending.code, 0) << ending.output;
  const std::string script = folder_.write("load.py", R"(import sys
try:
    import transformers
except ImportError:
    sys.exit(77)
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])
assert model.config.vocab_size >= len(tokenizer)
print(tokenizer("the worm")["input_ids"], tokenizer.eos_token)
print(repr(tokenizer.decode(tokenizer("the  worm\n")["input_ids"])))
)");
  const Ending loaded = run_command(std::string(FSDP_PYTHON) + " " + script + " " + (folder_ / "run/model"));
  if (loaded.code == 77) FSDP_SKIP_TEST("Python has no transformers");
  EXPECT_EQ(loaded.code, 0) << loaded.output;
  const auto id = [&](const char* token) { return std::to_string(byte_level_.id(token)); };
  EXPECT_THAT(loaded.output, HasSubstr("[" + id("the") + ", " + id("\xc4\xa0w") + ", " + id("or") + ", " + id("m") +
                                       "] <|endoftext|>\n'the  worm\\n'\n"));
}

TEST_F(TokenizerProgram, RefusesOneThatIsDamaged) {
  const std::string whole = byte_level_.tokenizer_json();
  const std::string cut = folder_.write("cut.json", whole.substr(0, whole.size() / 2));
  for (const std::string& arguments : {"prepare --output " + (folder_ / "out"), "--run " + (folder_ / "run")}) {
    const Ending ending = run_train(arguments + " --text " + text_ + " --tokenizer " + cut);
    EXPECT_EQ(ending.code, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("cut.json' is damaged"));
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
