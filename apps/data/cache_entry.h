// The entries of a cache: their names, and whether one that is there is what its name says.
//
// An entry is made whole under its own name or not at all. A changed or foreign entry is an error that names it: it is
// never used, and never removed, because a user may need it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "data/fingerprint.h"
#include "tokenizers/tokenizer.h"

namespace data {

enum class EntryKind { None, Tokens, Model };

std::string token_entry(const Fingerprint& key);
std::string model_entry(int64_t vocabulary, const Fingerprint& key);
// The kind of a name in a cache; None: not a name of the cache.
EntryKind entry_kind(const std::string& name);

// True if anything lies there, a link for one. Throws fsdp::Error where that cannot be known.
bool is_there(const std::filesystem::path& entry);

// Throws fsdp::Error unless the folder has the files that its list names (file_list.h), as long as they were.
void check_token_entry(const std::filesystem::path& folder);

// Throws fsdp::Error for what is no model, or one of more tokens than `vocabulary`.
std::shared_ptr<const tokenizers::Tokenizer> read_model_entry(const std::filesystem::path& model, int64_t vocabulary);

}  // namespace data
