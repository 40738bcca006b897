#include "generation/sample_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// The reading end of a pipe that holds `text`.
class Pipe {
 public:
  explicit Pipe(const std::string& text) {
    EXPECT_EQ(pipe(ends_), 0);
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends_[1]);
  }
  ~Pipe() { close(ends_[0]); }
  int end() const { return ends_[0]; }

 private:
  int ends_[2];
};

class SampleInputsTest : public ::testing::Test {
 protected:
  SampleInputsTest() {
    for (const char* step : {"run/step-2", "run/step-10", "run/best"}) {
      folder_.write(std::string(step) + "/manifest.json", "{\"format\": \"fsdp-checkpoint\", \"shards\": 1}");
      folder_.write(std::string(step) + "/shard-00001-of-00001.safetensors", "a header");
    }
    folder_.write("run/config.toml",
                  "[training]\nseed = 7\n[samples]\nprompt = \"As configured\"\n[ranks]\nthreads = 3\n");
    folder_.write("run/tokenizer.json", "{\"tokenizer\": \"bytes\"}\n");
    folder_.write("run/model/config.json",
                  "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 16, \"n_embd\": 8, \"n_head\": 2, "
                  "\"n_layer\": 1}");
    folder_.write("run/model/model.safetensors", "weights");
  }

  // Of a line without problems of its own, on a standard input that is no pipe.
  SampleInputs read(std::vector<std::string> arguments, int standard_input = -1) {
    arguments.insert(arguments.begin(), "sample");
    line_ = parse_command_line(arguments);
    EXPECT_THAT(line_.problems, IsEmpty());
    return read_sample_inputs(line_, standard_input);
  }
  fs::path folder_of(const std::string& named) {
    const SampleInputs inputs = read({named});
    EXPECT_THAT(inputs.problems, IsEmpty());
    EXPECT_EQ(inputs.is_exported, named.ends_with("model"));
    return inputs.folder;
  }

  TemporaryFolder folder_;
  CommandLine line_;
};

TEST_F(SampleInputsTest, AreOfARunACheckpointOrAModel) {
  EXPECT_EQ(folder_of(folder_ / "run"), folder_ / "run/step-10");
  EXPECT_EQ(line_.options.seed, 7);
  EXPECT_EQ(line_.options.threads, 0);  // the machine's own, not those of a rank of the run
  EXPECT_EQ(folder_of(folder_ / "run/step-2"), folder_ / "run/step-2");
  EXPECT_EQ(line_.options.seed, 7);
  EXPECT_EQ(folder_of(folder_ / "run/best"), folder_ / "run/best");
  EXPECT_EQ(folder_of(folder_ / "run/model"), folder_ / "run/model");
  EXPECT_EQ(line_.options.model.width, 8);
  EXPECT_EQ(read({"--checkpoint", folder_ / "run"}).folder, folder_ / "run/step-10");
  EXPECT_EQ(read({folder_ / "run", "--threads", "2"}).problems.size(), 0u);
  EXPECT_EQ(line_.options.threads, 2);
}

TEST_F(SampleInputsTest, AreFoundFromWithinTheFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "run/step-2");
  EXPECT_EQ(read({"."}).tokenizer->name(), "bytes");
  EXPECT_EQ(line_.options.seed, 7);
  fs::create_directory_symlink(folder_ / "run/step-10", folder_ / "latest");
  fs::current_path(folder_.path());
  read({"latest"});
  EXPECT_EQ(line_.options.seed, 7);
  fs::current_path(before);
}

TEST_F(SampleInputsTest, TakeTheTokenizerThatIsAskedForThenTheNearest) {
  EXPECT_THAT(read({folder_ / "run", "--tokenizer", folder_ / "none.model"}).problems,
              ElementsAre(HasSubstr("none.model' does not exist")));
  folder_.write("run/model/tokenizer.json", "{\"tokenizer\":");
  EXPECT_THAT(read({folder_ / "run/model"}).problems, ElementsAre(HasSubstr("run/model/tokenizer.json' is damaged")));
  EXPECT_THAT(read({folder_ / "run/step-2"}).problems, IsEmpty());
  fs::rename(folder_ / "run/model", folder_ / "model");
  fs::remove(folder_ / "model/tokenizer.json");
  EXPECT_EQ(read({folder_ / "model"}).tokenizer->name(), "bytes");  // a vocabulary of 256
  folder_.write("model/config.json",
                "{\"model_type\": \"gpt2\", \"vocab_size\": 300, \"n_positions\": 16, \"n_embd\": 8, \"n_head\": 2, "
                "\"n_layer\": 1}");
  EXPECT_THAT(read({folder_ / "model"}).problems, ElementsAre(HasSubstr("model' comes without a tokenizer")));
}

TEST_F(SampleInputsTest, TakeThePromptThatIsAskedForThenStandardInput) {
  const std::string run = folder_ / "run";
  EXPECT_EQ(read({run}).prompt, "As configured");
  EXPECT_EQ(read({run}, Pipe("piped\n\n").end()).prompt, "piped\n");
  EXPECT_EQ(read({run, "--prompt", "-"}, Pipe("piped").end()).prompt, "piped");
  EXPECT_EQ(read({run, "--prompt", "typed"}, Pipe("piped").end()).prompt, "typed");
  EXPECT_EQ(read({run, "--prompt", ""}, Pipe("piped").end()).prompt, "");
  EXPECT_EQ(read({run, "--prompt="}, Pipe("piped").end()).prompt, "");
  EXPECT_EQ(read({run}, Pipe("").end()).prompt, "");
  const std::string file = folder_.write("mine.toml", "[samples]\nprompt = \"mine\"\n");
  EXPECT_EQ(read({run, "--config", file}, Pipe("piped").end()).prompt, "mine");
  EXPECT_THAT(read({run, "--prompt", "-"}, -1).problems, ElementsAre(HasSubstr("standard input cannot be read: ")));
}

TEST_F(SampleInputsTest, ProblemsComeAllAtOnce) {
  EXPECT_THAT(read({folder_ / "none", "--tokenizer", "none.json"}).problems,
              ElementsAre(HasSubstr("none' does not exist."), HasSubstr("none.json' does not exist.")));
  fs::create_directory(folder_ / "void");
  EXPECT_THAT(read({folder_ / "void"}).problems, ElementsAre(HasSubstr("void' has no manifest.json")));
  folder_.write("new/metrics.jsonl", "");
  EXPECT_THAT(read({folder_ / "new"}).problems, ElementsAre(HasSubstr("new' has no checkpoint yet")));
  folder_.write("run/step-2/manifest.json", "{\"format\": \"fsdp-checkpoint\", \"shards\": 2}");
  EXPECT_THAT(read({folder_ / "run/step-2"}).problems, ElementsAre(HasSubstr("shard-00001-of-00002.safetensors")));
  const CommandLine wrong = parse_command_line({"sample", folder_ / "none", "--samples", "0", "--colour"});
  EXPECT_THAT(wrong.problems, ElementsAre(HasSubstr("--samples is 0"), HasSubstr("--colour")));
  EXPECT_THAT(read_sample_inputs(wrong, -1).problems, ElementsAre(HasSubstr("none' does not exist.")));
}

}  // namespace
}  // namespace trainer
