#include "run/run_data.h"

#include "files/printable.h"

namespace trainer {

DataRecord data_record_of(const data::Corpus& corpus, int64_t steps_done) {
  DataRecord record{.step = steps_done,
                    .training_tokens = corpus.training->size(),
                    .validation_tokens = corpus.validation ? corpus.validation->size() : 0,
                    .held_back = corpus.validation ? corpus.held_back : 0,
                    .hidden = corpus.facts.hidden.count,
                    .binary = corpus.facts.binary.count,
                    .empty = corpus.facts.empty.count,
                    .unreadable = static_cast<int64_t>(corpus.passed_over.size()),
                    .crlf = corpus.facts.crlf.count};
  if (corpus.tokenizer) {
    record.tokenizer = fsdp::files::printable_lines(corpus.tokenizer->name());
    record.vocabulary = corpus.tokenizer->vocabulary();
  }
  if (corpus.facts.not_utf8) record.not_utf8 = corpus.facts.not_utf8->count;
  if (!corpus.headerless.empty()) record.assumed_dtype = "uint16";
  return record;
}

}  // namespace trainer
