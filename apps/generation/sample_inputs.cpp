#include "generation/sample_inputs.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "options/sample_choice.h"
#include "run/checkpoint_folder.h"
#include "run/collect_problems.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardInput = "-";  // as --prompt

void find_model(const fs::path& named, SampleInputs& inputs) {
  const SampleForm form = sample_form(named);
  inputs.folder = named;
  inputs.is_exported = form == SampleForm::Exported;
  std::error_code ignored;
  if (!fs::exists(named, ignored)) throw fsdp::Error(fmt::format("checkpoint '{}' does not exist.", named.string()));
  if (form == SampleForm::Unknown) {
    throw fsdp::Error(fmt::format(
        "checkpoint '{}' has no manifest.json: it is no checkpoint, and neither a run nor a model of Hugging "
        "Face with config.json and model.safetensors. Name a run, or a folder in it such as RUN/step-300.",
        named.string()));
  }
  if (inputs.is_exported) return;
  if (form == SampleForm::Run) {
    inputs.checkpoint = newest_checkpoint(named);
    inputs.folder = inputs.checkpoint.newest_first.front();
  } else {
    check_shards(named);
    inputs.checkpoint.newest_first = {named};
  }
}

std::string tokenizer_name(const CommandLine& line, const SampleInputs& inputs) {
  if (line.asks("--tokenizer")) return line.options.tokenizer;
  for (const fs::path& folder : {inputs.folder, run_around(inputs.folder)}) {
    if (tokenizers::has_tokenizer(folder)) return folder.string();
  }
  const bool is_configured = !inputs.is_exported || line.options.model.vocabulary == 256;
  if (is_configured) return line.options.tokenizer;
  throw fsdp::Error(
      fmt::format("model '{}' comes without a tokenizer. Name one with --tokenizer.", inputs.folder.string()));
}

bool is_pipe_or_file(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode));
}

// All of it, without the newline at its end, as a shell reads what a command prints.
std::string read_prompt(int descriptor) {
  constexpr size_t kMostBytes = size_t{16} << 20;  // far beyond every context
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw fsdp::Error(fmt::format("--prompt: standard input cannot be read: {}.", std::strerror(errno)));
    }
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kMostBytes) {
      throw fsdp::Error(fmt::format("--prompt: standard input has more than {} bytes.", kMostBytes));
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string prompt_of(const CommandLine& line, int standard_input) {
  const bool is_asked = line.asks("--prompt");
  const bool is_read = is_asked ? line.options.prompt == kStandardInput : is_pipe_or_file(standard_input);
  return is_read ? read_prompt(standard_input) : line.options.prompt;
}

}  // namespace

SampleInputs read_sample_inputs(const CommandLine& line, int standard_input) {
  SampleInputs inputs;
  const std::string& named = line.options.checkpoint;
  if (!named.empty()) {  // that it is missing has been said
    collect_problems(inputs.problems, [&] { find_model(named, inputs); });
    collect_problems(inputs.problems,
                     [&] { inputs.tokenizer = tokenizers::make_tokenizer(tokenizer_name(line, inputs)); });
  }
  // Check before the user types a prompt.
  if (inputs.problems.empty() && line.problems.empty()) {
    collect_problems(inputs.problems, [&] { inputs.prompt = prompt_of(line, standard_input); });
  }
  return inputs;
}

}  // namespace trainer
