// The data of a run, from what it is told to tokens that can be read.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/data_order.h"
#include "data/encode.h"
#include "data/token_source.h"
#include "tokenizers/tokenizer.h"

namespace data {

struct CorpusOptions {
  std::string data = {};        // a text file, a folder of them, or token files (names_token_files, token_file.h); or
                                // several of them with weights (sources.h)
  std::string validation = {};  // the same, to validate with; empty: what the data holds for that, or the end of it
  double validation_fraction = 0.05;  // of the end, where the data itself holds nothing to validate with
  std::string tokenizer = {};         // make_tokenizer's; empty: the one beside token files, and bytes for a text
  int64_t trained_vocabulary = 0;     // above 0: the tokenizer is a sentencepiece model, trained on the text
  std::filesystem::path cache = {};   // for what is trained and encoded; empty: cache_folder() of cache.h
  int64_t context = 1;                // of the windows
  int threads = 1;                    // that encode
};

// A source among the tokens to train on.
struct CorpusSource {
  std::string path;
  OrderedSource tokens;
};

struct Corpus {
  Tokens training = nullptr;
  Tokens validation = nullptr;                                       // null: there is nothing to validate with
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer = nullptr;  // null: token files that came without
  std::vector<std::string> passed_over = {};                         // in the folders of texts (text_files.h)
  TextFacts facts = {};                                              // of texts, and of the texts behind tokens
  double held_back = 0;         // the share of the end that is to be validated with; 0: the data has its own, or none
  std::string headerless = {};  // a token file that is nanoGPT's as far as nothing in it says otherwise; empty: none
  std::vector<CorpusSource> sources = {};  // one after the other in `training`; empty: it is one

  // For DataOrder.
  std::vector<OrderedSource> ordered() const;
  // Windows of context + 1 tokens to train on; none lies in two sources.
  int64_t windows(int64_t context) const;
};

// Opens text or token files, whatever the data is. Throws fsdp::Error that names what is missing, damaged, too short
// for one window, or does not go together. `progress`, of a text that is encoded now, may be empty.
Corpus open_corpus(const CorpusOptions& options, const OnProgress& progress = {});

// As above, for what is known to be text, whatever it is called.
Corpus open_text(const CorpusOptions& options, const OnProgress& progress = {});

// Why a model of this vocabulary cannot be trained on the data: a sentence, empty when it can as far as the tokenizer
// tells. Token files may hold other tokens; make_batch (batch.h) finds them.
std::string vocabulary_problem(const Corpus& corpus, int64_t vocabulary);

}  // namespace data
