// The folder of one checkpoint, as docs/checkpoint_format.md has it, without LibTorch: what it is called, whether it is
// one of ours, and which of its files belong to it. A load checks the files themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trainer {

// N for ".../step-N", where a run keeps its checkpoints, as this program writes N: no sign, no leading zero, at most
// 2^53. None for every other name.
std::optional<int64_t> step_in_name(const std::filesystem::path& folder);

// Throws fsdp::Error where `folder` has another name than RUN/step-N of its step. Other names say nothing.
void check_step_in_name(const std::filesystem::path& folder, int64_t step);

// A folder, no symbolic link, whose manifest says that it is a checkpoint of this library.
bool is_checkpoint(const std::filesystem::path& folder);

// True if `folder` is one with nothing else in it, or empty: a save may take its place.
bool is_replaceable(const std::filesystem::path& folder);

// Throws fsdp::Error for a manifest that is damaged, or claims shards that the folder does not hold.
void check_shards(const std::filesystem::path& folder);

// The bytes of its files; 0 if they cannot be listed.
int64_t bytes_of_checkpoint(const std::filesystem::path& folder);

// True if `folder`, no link, holds files of a checkpoint alone, or nothing.
bool holds_checkpoint_files_only(const std::filesystem::path& folder);

// Renames it to FOLDER.partial-remove, so that it is no checkpoint any more, syncs that, and removes it. If the process
// is killed meanwhile, tidy_after_crash removes the rest. Throws fsdp::Error when it cannot, and when other files lie
// in the folder: these stay where they are.
void remove_checkpoint(const std::filesystem::path& folder);

// Removes the files of a checkpoint, the manifest first, and the folder, where they lie. Throws as remove_checkpoint.
void remove_files_of_checkpoint(const std::filesystem::path& folder);

}  // namespace trainer
