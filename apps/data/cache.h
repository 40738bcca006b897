// Results that each start would have to work out again, kept on the disk: the tokens of a text and the models trained
// on it. Entries are whole; their names are made from their sources, and any of them may be deleted.
#pragma once

#include <filesystem>
#include <memory>

#include "data/token_folder.h"

namespace data {

// Where a program keeps what it would have to work out again: FSDP_CACHE, otherwise XDG_CACHE_HOME/fsdp or
// ~/.cache/fsdp (https://specifications.freedesktop.org/basedir-spec), otherwise fsdp-cache in the folder it was
// started in.
std::filesystem::path cache_folder();

// The folder in `cache` with the tokens of the text, written now if it is not there. Its name is made from the text's
// fingerprint, where it is split, and the tokenizer; so ranks and later runs share it. If several processes need the
// same entry, one encodes and the others wait. Throws fsdp::Error.
std::filesystem::path cached_token_folder(const std::filesystem::path& cache, const TextSplit& text,
                                          const tokenizers::Tokenizer& tokenizer, int threads,
                                          const OnProgress& progress);

// The sentencepiece model of `vocabulary` tokens trained on the text, at most kTrainingBytes of it spread evenly, from
// `cache` or trained now and left there. Throws fsdp::Error.
inline constexpr int64_t kTrainingBytes = int64_t{32} << 20;
std::shared_ptr<const tokenizers::Tokenizer> cached_tokenizer(const std::filesystem::path& cache, const TextPart& text,
                                                              int64_t vocabulary);

}  // namespace data
