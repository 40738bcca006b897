// Options that name files and folders, and what their relative paths are relative to.
//
// A path on the command line, or in a file of the user's, is relative to the working folder. In a file that begins with
// paths_relative_to = "file", as a run's own does, it is relative to the folder of that file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "options/option_table.h"

namespace trainer {

// The value of an option with every path in it replaced. Words such as train:4096, and options without a path, stay as
// they are.
std::string with_paths(const Row& row, const std::string& value,
                       const std::function<std::string(const std::string& path)>& replace);

// Returns the problem with the length of a path, in words that follow its name. Empty: the system takes it.
std::string problem_of_length(const std::string& path);
// As above, of the paths in a value.
std::string problem_of_lengths(const Row& row, const std::string& value);

// True if the value has a path that is relative.
bool names_relative_path(const Row& row, const std::string& value);

// True if both name the same but for the folders around it: a file may be where it was, or have moved.
bool names_same_files(const Row& row, const std::string& one, const std::string& other);

// The folder of a file, absolute and without links.
std::filesystem::path folder_of_file(const std::filesystem::path& file);

// A path that is relative to `folder`, as it is to be used from here: relative to the working folder where it lies in
// that, absolute elsewhere. Absolute paths stay.
std::string path_from(const std::filesystem::path& folder, const std::string& path);

// A path of the working folder as seen from another one, which is absolute.
std::string path_seen_from(const std::filesystem::path& folder, const std::string& path);

// As above, for every folder: absolute.
std::string absolute_path(const std::string& path);

}  // namespace trainer
