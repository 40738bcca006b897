#include "data/data_notes.h"

#include <fmt/format.h>

#include "files/printable.h"

namespace data {

std::vector<std::string> data_notes(const Corpus& corpus) {
  const bool keeps_bytes = corpus.tokenizer && corpus.tokenizer->name() == "bytes";
  std::vector<std::string> notes = fact_lines(corpus.facts, keeps_bytes);
  if (!corpus.headerless.empty()) {
    notes.push_back(fmt::format("read {} as uint16, as nanoGPT writes tokens: it has no header",
                                fsdp::files::printable(corpus.headerless)));
  }
  if (corpus.held_back > 0) {
    notes.push_back(corpus.validation
                        ? fmt::format("held back the last {:.3g} % for validation", 100 * corpus.held_back)
                        : "held back nothing for validation: the data is too short");
  }
  return notes;
}

}  // namespace data
