// `fsdp-train prepare`: turns text into token files, once, so that runs begin at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_folder.h"

namespace trainer {

struct Preparation {
  std::string text = {};              // a file, or a folder of files
  std::string validation_text = {};   // the same, to validate with; empty: the end of the text
  double validation_fraction = 0.05;  // of the text; 0: nothing is held back
  std::string out = {};               // the folder to write; absent or empty
  std::string tokenizer = "bytes";    // or a sentencepiece model
  int64_t trained_vocabulary = 0;     // above 0: the tokenizer is a sentencepiece model, trained on the text
  std::string kind = "nanogpt";       // of the token files (data/token_kind.h)
  int64_t threads = 1;                // that encode
  std::string cache = {};             // for tokenizers that are trained; empty: data::cache_folder()
};

struct Prepared {
  int64_t bytes = 0;  // of text
  data::TokenCounts tokens = {};
  int64_t vocabulary = 0;
  std::vector<std::string> passed_over = {};  // in folders of texts (data/text_files.h)
  std::vector<std::string> notes = {};        // what was skipped and assumed, a short line each
};

// Everything that is wrong with the options and with what they name, a sentence each. Writes nothing.
std::vector<std::string> prepare_problems(const Preparation& options);

// Writes OUT/train.bin, OUT/val.bin where text is held back, and the tokenizer as OUT/tokenizer.model or
// OUT/tokenizer.json: all of it or nothing. Throws fsdp::Error. `progress`, in bytes of text, may be empty, and may
// throw to end the work.
Prepared prepare(const Preparation& options, const data::OnProgress& progress);

// As above, with a bar on terminals, and one line when it is done, after those of what was skipped.
void run_prepare(const Preparation& options);

}  // namespace trainer
