#include "fsdp-train/first_checkpoint.h"

#include <filesystem>

#include "options/first_weights.h"
#include "options/sample_choice.h"
#include "run/collect_problems.h"
#include "run/newest_checkpoint.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

namespace fs = std::filesystem;

std::vector<std::string> choose_first_checkpoint(RunOptions& options) {
  std::string& weights = options.model_options.init_from;
  const fs::path run = run_of_weights(weights);
  std::vector<std::string> problems;
  if (run.empty()) return problems;
  collect_problems_of("--init-from", problems, [&] {
    if (sample_form(weights) == SampleForm::Run) weights = newest_checkpoint(weights).newest_first.front().string();
    // Bytes need no file, and no cache.
    if (options.tokenizer == run.string() && tokenizers::make_tokenizer(options.tokenizer)->name() == "bytes") {
      options.tokenizer = "bytes";
    }
  });
  return problems;
}

}  // namespace trainer
