// The command line as a whole.
#include "options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/command_line.h"
#include "options/configuration_file.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> problems_of(std::vector<std::string> arguments) {
  return parse_command_line(std::move(arguments)).problems;
}

TEST(Options, DefaultsNeedOnlyAText) {
  const CommandLine line = parse_command_line({"--text", "a.txt"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.answer, "");
  EXPECT_EQ(line.command, Command::Train);
  EXPECT_EQ(line.options.text, "a.txt");
  EXPECT_EQ(line.options.warmup, 100);  // a fifth of the steps, at most 100
}

TEST(Options, AreTakenAsGiven) {
  const CommandLine line =
      parse_command_line({"--text=a.txt", "--run", "out", "--ranks", "4", "--lr", "1e-4", "--prompt", "-- so",
                          "--warmup", "0", "--micro-batches", "2", "--seed", "3"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.run, "out");
  EXPECT_EQ(line.options.ranks, 4);
  EXPECT_EQ(line.options.lr, 1e-4);
  EXPECT_EQ(line.options.prompt, "-- so");
  EXPECT_EQ(line.options.warmup, 0);
  EXPECT_EQ(line.options.tokens_per_step(), 4 * 2 * 8 * 128);
}

TEST(Options, AllProblemsAreFoundAtOnce) {
  EXPECT_THAT(problems_of({"--ranks", "0", "--steps", "many", "--widht", "12", "--heads", "3", "--lr", "-1", "--warmup",
                           "400", "--clip"}),
              UnorderedElementsAre(
                  "--ranks is 0; it must be at least 1.", "--steps: 'many' is not a whole number.",
                  "'--widht' is no option of this program; did you mean --width?",
                  "--heads: width 128 is not a multiple of heads 3.", "--lr is -1; it must be a number above 0.",
                  "--warmup 400 is more than --steps 300.", "--clip needs a value.",
                  "--text is missing: name a file, or a folder of files, to learn from; or tokens with --data."));
}

TEST(Options, AForgottenValueDoesNotSwallowTheNextOption) {
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "--batch", "0"}),
              UnorderedElementsAre("--steps needs a value.", "--batch is 0; it must be at least 1."));
}

TEST(Options, NumbersThatAreNone) {
  EXPECT_THAT(problems_of({"--text", "a", "--lr", "nan"}), ElementsAre("--lr is nan; it must be a number above 0."));
  EXPECT_THAT(problems_of({"--text", "a", "--clip", "inf"}),
              ElementsAre("--clip is inf; it must be a number above 0."));
  EXPECT_THAT(problems_of({"--text", "a", "--lr", "1e-3x"}), ElementsAre("--lr: '1e-3x' is not a number."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "1.5"}), ElementsAre("--steps: '1.5' is not a whole number."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "99999999999999999999"}),
              ElementsAre("--steps is 99999999999999999999; it must be at most 1000000000."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "1e19"}),
              ElementsAre("--steps is 1e19; it must be at most 1000000000."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps=-1e400"}), ElementsAre("--steps is -1e400; it must be at least 1."));
  EXPECT_THAT(problems_of({"--text", "a", "--seed", "18446744073709551616"}),
              ElementsAre("--seed is 18446744073709551616; it must be at most 9223372036854775807."));
  EXPECT_THAT(problems_of({"--text", "a", "--seed", "1e18"}),
              ElementsAre("--seed is 1e18, which is not exact above 2^53. Write all its digits."));
  EXPECT_THAT(problems_of({"--text", "a", "--lr", "1e400"}),
              ElementsAre("--lr is 1e400, which is beyond the range of fp64."));
  EXPECT_THAT(problems_of({"--text", "a", "--steps", "1e3"}), IsEmpty());
  EXPECT_THAT(problems_of({"--text", "a", "--layers", "9999999999"}),
              ElementsAre("--layers is 9999999999; it must be at most 4096."));
  EXPECT_THAT(problems_of({"--text", "a", "--trace-steps", "9..5"}),
              ElementsAre("--trace-steps: '9..5' is no range of steps such as 100..110."));
}

TEST(Options, AreGivenOnce) {
  EXPECT_THAT(
      problems_of({"--text", "a", "--steps", "5", "--steps=50", "--export", "--export", "--lr", "0"}),
      UnorderedElementsAre("--steps is given 2 times: 5, 50. Give it once.", "--export is given 2 times. Give it once.",
                           "--lr is 0; it must be a number above 0."));
}

TEST(Options, MayHaveUnderscoresForDashes) {
  const CommandLine line =
      parse_command_line({"--text", "a", "--weight_decay", "0.5", "--micro_batches=2", "--prompt", "a_b"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.weight_decay, 0.5);
  EXPECT_EQ(line.options.micro_batches, 2);
  EXPECT_EQ(line.options.prompt, "a_b");
  EXPECT_THAT(problems_of({"--text", "a", "--micro_batches", "2", "--micro-batches", "4"}),
              ElementsAre("--micro-batches is given 2 times: 2, 4. Give it once."));
}

TEST(Options, NumbersAreAsPeopleWriteThem) {
  const CommandLine line = parse_command_line({"--text", "a", "--steps", "2_000", "--tokens-per-step", "16k", "--lr",
                                               "1e-4", "--tokenizer", "train:4k", "--trace-steps", "1_000..1.5k"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.steps, 2000);
  EXPECT_EQ(line.options.target_tokens_per_step, 16'000);
  EXPECT_EQ(line.options.trace_steps, (StepRange{1000, 1500}));
  EXPECT_EQ(line.options.tokenizer, "train:4k");
}

TEST(Options, OfOtherTrainersAreKnown) {
  EXPECT_THAT(
      problems_of({"--text", "a", "--batch-size", "8", "--learning_rate=1", "--max-steps", "5", "--bf16", "--out_dir",
                   "out", "--strategy", "zero3", "--param-dtype", "bfloat16"}),
      UnorderedElementsAre("'--batch-size' is no option of this program; did you mean --batch?",
                           "'--learning_rate' is no option of this program; did you mean --lr?",
                           "'--max-steps' is no option of this program; did you mean --steps?",
                           "'--bf16' is no option of this program; did you mean --param-dtype bf16?",
                           "'--out_dir' is no option of this program; did you mean --run?",
                           HasSubstr("--strategy is 'zero3'; did you mean full-shard? If not, it must be one of "),
                           HasSubstr("--param-dtype is 'bfloat16'; did you mean bf16? If not,")));
  EXPECT_THAT(problems_of({"generate", "--text", "a"}),
              ElementsAre("'generate' is no command of this program; did you mean sample?"));
  EXPECT_THAT(problems_of({"report", "a", "--batch-size", "3"}),  // which has no --batch
              ElementsAre("'--batch-size' is no option of this program."));
  EXPECT_THAT(
      problems_of({"--text", "a", "config/train.toml"}),
      ElementsAre("'config/train.toml' is no option of this program; did you mean --config config/train.toml?"));
}

TEST(Options, ATokenizerIsTrainedWithAVocabularyThatCanBe) {
  for (const char* bad : {"train:3", "train:259", "train:2M", "train:", "train:x"}) {
    EXPECT_THAT(
        problems_of({"--text", "a", "--tokenizer", bad}),
        ElementsAre(HasSubstr("it must be bytes, a tokenizer's file or folder, or train: and a vocabulary of 260 to")));
  }
  EXPECT_THAT(problems_of({"--text", "a", "--tokenizer", "train:260"}), IsEmpty());
}

TEST(Options, AMistakeCountsOnce) {
  EXPECT_THAT(problems_of({"--text"}), ElementsAre("--text needs a value."));
  EXPECT_THAT(problems_of({"--text", "a", "--color", "red"}), ElementsAre("'--color' is no option of this program."));
}

TEST(Options, AnyTextIsAValue) {
  const CommandLine line = parse_command_line({"--text", "a", "--prompt", "{}"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.prompt, "{}");
}

TEST(Options, StrayWordsAreNamed) {
  EXPECT_THAT(problems_of({"report", "a", "--output", "b", "--help-me"}),
              ElementsAre("'--help-me' is no option of this program; did you mean --help?"));
  EXPECT_THAT(problems_of({"prepare", "--text", "a", "--output", "b", "help"}),
              ElementsAre("'help' is no option of this program; did you mean --help?"));
  EXPECT_THAT(problems_of({"--ranks", "1", "b", "--text", "a"}), ElementsAre("'b' is no option of this program."));
}

TEST(Options, CommandsComeFirst) {
  EXPECT_EQ(parse_command_line({"train", "--text", "a"}).command, Command::Train);
  EXPECT_EQ(parse_command_line({"prepare", "--text", "a", "--output", "b"}).command, Command::Prepare);
  EXPECT_EQ(parse_command_line({"sample", "--checkpoint", "a"}).options.checkpoint, "a");
  EXPECT_THAT(parse_command_line({"report", "a", "b"}).options.runs, ElementsAre("a", "b"));
  EXPECT_THAT(problems_of({"trian", "--text", "a"}),
              ElementsAre("'trian' is no command of this program; did you mean train?"));
}

TEST(Options, MayBeMeantByACommandOfAnotherTrainer) {
  EXPECT_THAT(problems_of({"eval", "run-1"}),
              ElementsAre("'eval' is no command of this program; did you mean fsdp-train --eval-only --run run-1?"));
  EXPECT_THAT(problems_of({"evaluate", "--json"}),
              ElementsAre("'evaluate' is no command of this program; did you mean fsdp-train --eval-only --run RUN?"));
  EXPECT_THAT(problems_of({"resume", "run-1", "--steps", "9"}),
              ElementsAre("'resume' is no command of this program; did you mean fsdp-train --resume run-1?"));
}

TEST(Options, MayBeMeantByAPathAlone) {
  const TemporaryFolder folder;
  const std::string text = folder.write("book.txt", "text"), run = folder / "run";
  folder.write("run/config.toml", "");
  EXPECT_THAT(
      problems_of({text}),
      ElementsAre("'" + text + "' is no command of this program; did you mean fsdp-train --text " + text + "?"));
  EXPECT_THAT(
      problems_of({run}),
      ElementsAre("'" + run + "' is no command of this program; did you mean fsdp-train --resume " + run + "?"));
  EXPECT_THAT(problems_of({"train", text}),
              Contains("'" + text + "' is no option of this program; did you mean --text " + text + "?"));
}

TEST(Options, TakeOnePath) {
  EXPECT_THAT(problems_of({"--text", "a.txt", "b.txt", "--steps", "5"}),
              ElementsAre("--text takes one path, and 2 are given: a.txt, b.txt. Name their folder, or give each path "
                          "a weight, as in --text a.txt:1,b.txt:1."));
  EXPECT_THAT(problems_of({"prepare", "--output", "out", "--text=1", "2", "3", "4", "5", "6"}),
              ElementsAre("--text takes one path, and 6 are given: 1, 2, 3, 4 and 2 more. Name their folder, or give "
                          "each path a weight, as in --text 1:1,2:1."));
  EXPECT_THAT(problems_of({"--text", "a", "--validation", "b", "c"}),
              ElementsAre("--validation takes one path, and 2 are given: b, c. Name their folder."));
}

TEST(Options, AreFoundByTheirSpelling) {
  EXPECT_THAT(problems_of({"sample", "run", "--lenght", "9"}),
              ElementsAre("'--lenght' is no option of this program; did you mean --sample-length?"));
  EXPECT_THAT(problems_of({"--text", "a", "--lenght", "9", "--bacth-size", "9"}),
              ElementsAre("'--lenght' is no option of this program; did you mean --sample-length?",
                          "'--bacth-size' is no option of this program; did you mean --batch?"));
}

TEST(Options, EachCommandNeedsItsOwn) {
  EXPECT_THAT(problems_of({"prepare"}), ElementsAre(HasSubstr("--text is missing"), HasSubstr("--output is missing")));
  EXPECT_THAT(problems_of({"sample"}), ElementsAre(HasSubstr("--checkpoint is missing")));
  EXPECT_THAT(problems_of({"report"}), ElementsAre(HasSubstr("no run is named")));
  EXPECT_THAT(problems_of({"train"}), ElementsAre(HasSubstr("--text is missing")));
  EXPECT_THAT(problems_of({"--dry-run"}), IsEmpty());
  EXPECT_THAT(problems_of({"--data", "a"}), IsEmpty());
  EXPECT_THAT(problems_of({"sample", "--checkpoint", "a", "--lr", "1"}),
              ElementsAre("'--lr' is an option of fsdp-train train, not of fsdp-train sample."));
}

TEST(Options, ThatSayTheSameAreNotGivenTogether) {
  EXPECT_THAT(problems_of({"--text", "a", "--data", "b"}), ElementsAre(HasSubstr("--data and --text are both given")));
  EXPECT_THAT(problems_of({"--text", "a", "--tokens-per-step", "9", "--micro-batches", "1"}),
              ElementsAre(HasSubstr("--tokens-per-step and --micro-batches are both given")));
  EXPECT_THAT(problems_of({"--text", "a", "--resume", "auto", "--checkpoint", "b"}),
              ElementsAre(HasSubstr("--checkpoint and --resume are both given, and both say where to begin.")));
}

TEST(Options, ThatNothingWouldReadAreRefused) {
  EXPECT_THAT(problems_of({"--text", "a", "--decay-steps", "9"}),
              ElementsAre("--decay-steps is given, and --schedule cosine does not wait before it falls. Use --schedule "
                          "wsd."));
  EXPECT_THAT(problems_of({"--text", "a", "--muon-lr", "1"}),
              ElementsAre("--muon-lr is given, and --optimizer is adamw."));
}

TEST(Options, OfADryRunBelongToIt) {
  const CommandLine line = parse_command_line({"--dry-run", "--memory", "64GB", "--peak-flops", "40T"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.memory, 64e9);
  EXPECT_EQ(line.options.peak_flops, 40e12);
  EXPECT_THAT(problems_of({"--text", "a", "--memory", "64GB", "--peak-flops", "40T"}),
              ElementsAre("--memory is given without --dry-run, which compares with it.",
                          "--peak-flops is given without --dry-run, which tells the time by it."));
  EXPECT_THAT(problems_of({"--dry-run", "--memory", "64gb"}), ElementsAre("--memory: '64gb' is not a number."));
}

TEST(Options, AModelIsASizeWithChanges) {
  const CommandLine line = parse_command_line({"--text", "a", "--model", "gpt2-medium", "--context", "256"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.model.width, 1024);
  EXPECT_EQ(line.options.model.layers, 24);
  EXPECT_EQ(line.options.model.heads, 16);
  EXPECT_EQ(line.options.model.vocabulary, 50257);
  EXPECT_EQ(line.options.model.context, 256);
  EXPECT_THAT(problems_of({"--text", "a", "--model", "missing/config.json"}),
              ElementsAre(testing::StartsWith("--model: ")));
  EXPECT_THAT(problems_of({"--text", "a", "--model", "gtp2"}),
              ElementsAre(testing::AllOf(
                  testing::StartsWith("--model 'gtp2' is no size that is known, and no file; did you mean "
                                      "gpt2? Known are gpt2-tiny, gpt2-mini, llama-tiny, llama-mini, "
                                      "gpt2, gpt2-medium, gpt2-large, gpt2-xl, "),
                  testing::EndsWith(", llama-1b, llama-7b, llama-8b; fsdp-train models shows them."))));
  EXPECT_THAT(problems_of({"--text", "a", "--key-value-heads", "2", "--rope-theta", "1e4"}),
              UnorderedElementsAre(HasSubstr("--key-value-heads is given, and a GPT-2 has"),
                                   HasSubstr("--rope-theta is given, and a GPT-2 has")));
}

TEST(Options, TheVersionIsAnAnswer) {
  EXPECT_THAT(parse_command_line({"--version"}).answer, testing::MatchesRegex("fsdp-train [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Options, FlagsComeBeforeTheFileAndItBeforeDefaults) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("run.toml", "[data]\ntext = 'a'\n[training]\nlr = 0.5\nsteps = 70\n[model]\nwidth = 256\n");
  const CommandLine line = parse_command_line({"--config", path, "--steps", "80"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.text, "a");
  EXPECT_EQ(line.options.lr, 0.5);
  EXPECT_EQ(line.options.steps, 80);
  EXPECT_EQ(line.options.warmup, 16);
  EXPECT_EQ(line.options.model.width, 256);
  EXPECT_EQ(line.options.batch, 8);
}

TEST(Options, AFlagReplacesItsRivalInTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.toml", "[data]\ntext = 'a'\nepochs = 2\n[training]\nmicro_batches = 3\n");
  const CommandLine line = parse_command_line({"--config", path, "--steps", "80", "--tokens-per-step", "8192"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_FALSE(line.options.epochs.has_value());
  EXPECT_EQ(line.options.steps, 80);
  EXPECT_EQ(line.options.micro_batches, 8);
}

TEST(Options, ProblemsOfFlagsAndFileAreFoundTogether) {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.toml", "[training]\nlr = -1\n");
  EXPECT_THAT(problems_of({"--text", "a", "--config", path, "--steps", "0"}),
              ElementsAre(path + ":2:6: training.lr is -1; it must be a number above 0.",
                          "--steps is 0; it must be at least 1."));
  EXPECT_THAT(problems_of({"--text", "a", "--config", folder / "none"}),
              ElementsAre("configuration '" + (folder / "none") + "' cannot be read: No such file or directory."));
}

TEST(Options, SamplesComeFromTheRunsOwnModel) {
  const TemporaryFolder folder;
  folder.write("run/config.toml", "[model]\nwidth = 64\n[ranks]\nranks = 2\n[samples]\nprompt = 'Once'\n");
  const CommandLine line = parse_command_line({"sample", "--checkpoint", folder / "run/step-9/", "--top-k", "3"});
  EXPECT_THAT(line.problems, IsEmpty());
  EXPECT_EQ(line.options.model.width, 64);
  EXPECT_EQ(line.options.ranks, 2);
  EXPECT_EQ(line.options.prompt, "Once");
  EXPECT_EQ(line.options.top_k, 3);
}

TEST(Options, PrepareGetsItsOwn) {
  const CommandLine line =
      parse_command_line({"prepare", "--text", "a", "--validation", "b", "--validation-fraction", "0.25", "--tokenizer",
                          "train:4096", "--cache", "c", "--threads", "3", "--kind", "llmc-gpt2", "--output", "tokens"});
  EXPECT_THAT(line.problems, IsEmpty());
  const PrepareOptions options = line.options.prepare();
  EXPECT_THAT(
      (std::vector{options.text, options.validation, options.tokenizer, options.cache, options.kind, options.output}),
      ElementsAre("a", "b", "train:4096", "c", "llmc-gpt2", "tokens"));
  EXPECT_EQ(options.validation_fraction, 0.25);
  EXPECT_EQ(options.threads, 3);
}

TEST(Options, SampleGetsItsOwn) {
  const CommandLine line = parse_command_line(
      {"sample",        "run-1", "--samples",     "3",    "--prompt",    "Once", "--sample-length", "5",
       "--temperature", "0.5",   "--top-k",       "7",    "--seed",      "9",    "--threads",       "2",
       "--timeout",     "11",    "--param-dtype", "bf16", "--buffers",   "4",    "--prefetch",      "3",
       "--width",       "64",    "--vocabulary",  "300",  "--tokenizer", "bytes"});
  EXPECT_THAT(line.problems, IsEmpty());
  const SampleOptions options = line.options.sample();
  EXPECT_THAT((std::vector{options.checkpoint, options.prompt, options.param_dtype, options.tokenizer}),
              ElementsAre("run-1", "Once", "bf16", "bytes"));
  EXPECT_THAT((std::vector{options.samples, options.sample_length, options.top_k, options.seed, options.threads,
                           options.timeout, options.buffers, options.prefetch, options.model.width}),
              ElementsAre(3, 5, 7, 9, 2, 11, 4, 3, 64));
  EXPECT_EQ(options.temperature, 0.5);
  EXPECT_EQ(options.model_options.vocabulary, 300);
}

TEST(Options, WhatIsSavedIsTheSameConfigurationAgain) {
  const TemporaryFolder folder;
  const CommandLine first =
      parse_command_line({"--text", "a", "--lr", "3e-4", "--prompt", "\"And\"\n\\", "--schedule", "wsd", "--optimizer",
                          "muon", "--tokens-per-step", "5000", "--width", "64", "--trace-steps", "3..4"});
  ASSERT_THAT(first.problems, IsEmpty());
  const std::string saved = configuration_toml(first.options);
  const CommandLine second = parse_command_line({"train", "--config", folder.write("config.toml", saved)});
  EXPECT_THAT(second.problems, IsEmpty());
  EXPECT_EQ(second.options.chosen.flags, first.options.chosen.flags);
  EXPECT_EQ(second.options.prompt, "\"And\"\n\\");
  EXPECT_EQ(second.options.decay_steps, 100);
  EXPECT_EQ(second.options.muon_lr, 3e-4);
  EXPECT_EQ(second.options.micro_batches, 5);
  EXPECT_EQ(second.options.model.width, 64);
}

}  // namespace
}  // namespace trainer
