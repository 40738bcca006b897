// files.json of a folder: its files and their sizes, as its writer recorded them.
//
//   {"files": {"tokenizer.json": 23, "train.bin": 190000, "val.bin": 10000}}
//
// It tells a copy that was broken off from a whole one: token files of nanoGPT have no header that would.
#pragma once

#include <filesystem>

namespace data {

inline constexpr const char* kFileList = "files.json";

// Lists the files that lie in the folder. Throws fsdp::Error.
void write_file_list(const std::filesystem::path& folder);

// True if the folder's files may be symbolic links.
enum class Links { Followed, Refused };

// Throws fsdp::Error where the list is missing or damaged, or a file is missing or of another length: it names the
// file, what was found and what was expected.
void check_listed_files(const std::filesystem::path& folder, Links links);

// As above, for a folder that may have no list.
void check_listed_files_if_any(const std::filesystem::path& folder);

}  // namespace data
